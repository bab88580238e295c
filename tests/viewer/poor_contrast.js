// Texts with less than 4.5 : 1 against their background (WCAG 2.2, 1.4.3).
() => {
  // [red, green, blue, opacity]; color-mix() is written as color(srgb …), from 0 to 1.
  const rgb = (text) => {
    const numbers = (text.match(/-?[\d.]+(?:e-?\d+)?/g) || []).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((v) => v * scale), numbers[3] ?? 1];
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const weights = [0.2126, 0.7152, 0.0722];
  const luminance = (c) => weights.reduce((sum, w, i) => sum + w * linear(c[i] / 255), 0);
  const behind = (e) => {
    if (!e) return [255, 255, 255, 1];
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 4 && c[3] === 1) return c;
    const below = behind(e.parentElement);
    return c.length < 4 ? below : below.map((v, i) => (i < 3 ? c[3] * c[i] + (1 - c[3]) * v : 1));
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
