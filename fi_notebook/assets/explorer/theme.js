/** Light or dark, as the page is. */

import { redraw } from "./plots.js";

/** @import { View } from "./dom.js" */

/** Light or dark, as the page is; figures are drawn again when it switches. @param {View} view */
export function watchTheme(view) {
  const look = () => {
    if (!view.root.isConnected) return; // nothing has a colour yet
    const [r, g, b] = (getComputedStyle(view.root).backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
    const theme = 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
    if (view.root.dataset.theme === theme) return;
    view.root.dataset.theme = theme;
    redraw(view);
  };
  const later = () => requestAnimationFrame(look);
  const observer = new MutationObserver(later);
  for (const each of [document.documentElement, document.body]) observer.observe(each, { attributes: true });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", later);
  const put = new ResizeObserver(look); // a view is made first, and put into the page later
  put.observe(view.root);
  look();
  return () => {
    observer.disconnect();
    put.disconnect();
    media.removeEventListener("change", later);
  };
}
