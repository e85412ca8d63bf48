(function () {
  "use strict";

  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", function () {
    const chosen = root.dataset.theme;
    const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch (e) { /* pages from files may not store */ }
  });

  // Cells show four digits and carry all of them.
  const exact = (cell) => (cell.dataset.v !== undefined ? cell.dataset.v : cell.textContent);

  function copy(text, button) {
    const before = button.textContent;
    const done = function (ok) {
      button.textContent = ok ? "copied" : "select and copy by hand";
      setTimeout(() => { button.textContent = before; }, 1500);
    };
    const byHand = function () {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.appendChild(area);
      area.select();
      let ok = false;
      try { ok = document.execCommand("copy"); } catch (e) { /* then by hand */ }
      area.remove();
      done(ok);
    };
    if (navigator.clipboard && navigator.clipboard.writeText) {
      navigator.clipboard.writeText(text).then(() => done(true), byHand);
    } else {
      byHand();
    }
  }

  document.querySelectorAll("button.copy").forEach(function (button) {
    button.addEventListener("click", function () {
      if (button.dataset.copy === "text") {
        copy(button.parentNode.querySelector("code").textContent, button);
        return;
      }
      const table = button.closest("details").querySelector("table");
      const lines = Array.from(table.rows, (row) => Array.from(row.cells, exact).join("\t"));
      copy(lines.join("\n"), button);
    });
  });

  document.querySelectorAll("th button").forEach(function (button) {
    button.addEventListener("click", function () {
      const head = button.parentNode;
      const heads = Array.from(head.parentNode.cells);
      const place = heads.indexOf(head);
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = head.closest("table").tBodies[0];
      const rows = Array.from(body.rows);
      rows.sort(function (a, b) {
        const x = exact(a.cells[place]);
        const y = exact(b.cells[place]);
        const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
        const order = numbers ? x - y : x.localeCompare(y);
        return down ? -order : order;
      });
      rows.forEach((row) => body.appendChild(row));
    });
  });

  // Paper has no summaries to click on: open everything while it is printed.
  let closed = [];
  addEventListener("beforeprint", function () {
    closed = Array.from(document.querySelectorAll("details:not([open])"));
    closed.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((part) => { part.open = false; }));
})();
