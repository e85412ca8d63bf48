// Text that stands out too little from its ground: WCAG 2.1, level AA.
(() => {
  const channels = (text) => {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return numbers.length === 3 ? [...numbers, 1] : numbers;
  };
  const over = (top, below) => {
    const share = top[3];
    return [0, 1, 2].map((i) => top[i] * share + below[i] * (1 - share)).concat(1);
  };
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(channels(getComputedStyle(e).backgroundColor));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const canvas = dark && getComputedStyle(document.documentElement).colorScheme.includes("dark");
    const first = canvas ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((below, top) => over(top, below), first);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((c) => {
      const part = c / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim()) continue;
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (element.closest("script, style, title, svg, [hidden]")) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const both = [luminance(over(channels(style.color), below)), luminance(below)].sort((a, b) => a - b);
    const contrast = (both[1] + 0.05) / (both[0] + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
    if (contrast < (large ? 3 : 4.5)) {
      const kind = element.tagName.toLowerCase() + "." + element.className;
      faint.set(kind, walker.currentNode.textContent.trim().slice(0, 30) + " " + contrast.toFixed(2));
    }
  }
  return [...faint].map((pair) => pair.join(": "));
})()
