// The names of the select boxes that are narrower than their widest option.
() =>
  [...document.querySelectorAll("select")]
    .filter((select) => {
      const width = select.offsetWidth;
      const { cssText } = select.style;
      select.style.cssText = "max-width: none; width: max-content";
      const isCut = select.offsetWidth > width + 1;
      select.style.cssText = cssText;
      return isCut;
    })
    .map((select) => select.name);
