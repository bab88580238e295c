// Texts with less than 4.5 : 1 against their background (WCAG 2.2, 1.4.3).
() => {
  const rgb = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const weights = [0.2126, 0.7152, 0.0722];
  const luminance = (c) => weights.reduce((sum, w, i) => sum + w * linear(c[i] / 255), 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const written = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll("main *, header *")]
    .filter((e) => written(e) && e.getClientRects().length && !e.closest(".left-out, :disabled"))
    .map((e) => {
      const text = luminance(rgb(getComputedStyle(e).color));
      const both = [text, luminance(behind(e))].sort((x, y) => y - x);
      return [(both[0] + 0.05) / (both[1] + 0.05), e.className, e.textContent.slice(0, 40)];
    })
    .filter(([contrast]) => contrast < 4.5);
}
