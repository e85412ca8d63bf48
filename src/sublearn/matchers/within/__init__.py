"""Whether some weights bring every output within eps of its target: decided, by proof."""

from sublearn.matchers.within._decide import decide_within

__all__ = ["decide_within"]
