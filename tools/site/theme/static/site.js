"use strict";
// A page opened as a file may not fetch others, so search lists titles without excerpts there.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// The switch of versions leads to the same page of another version, or to its first page. versions.js defines
// kubernasiumVersions: [{version, pages}], latest first.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.querySelector(".site-versions");
  const versions = window.kubernasiumVersions || [];
  if (!box || !versions.length) return;
  const select = box.querySelector("select");
  select.replaceChildren(...versions.map(({version}) => new Option(version, version, false, version === box.dataset.version)));
  select.addEventListener("change", () => {
    const target = versions.find(({version}) => version === select.value);
    const page = target.pages.includes(box.dataset.page) ? box.dataset.page : "index.html";
    location.href = new URL(`${box.dataset.root}/../${target.version}/${page}`, location.href).href;
  });
});
