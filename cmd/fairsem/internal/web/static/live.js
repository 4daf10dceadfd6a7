"use strict";
// Keeps what is in #live as the server sees it. The server sends the whole content after each poll, and only
// what differs is changed here, so that focus, selection and scrolling stay. What comes after a part that is not
// always there has an id: all else is known by its place.
(() => {
  const live = document.getElementById("live");
  let source, again;

  const open = () => {
    close();
    source = new EventSource(live.dataset.stream);
    source.onmessage = (event) => show(event.data);
    source.onerror = () => {
      lost(true);
      if (source.readyState === EventSource.CLOSED) again = setTimeout(open, 3000); // it was refused: too many watch
    };
  };

  const close = () => {
    clearTimeout(again);
    if (source) source.close();
  };

  const lost = (yes) => {
    const hint = document.getElementById("lost");
    if (!hint) return;
    hint.hidden = !yes;
    if (yes) hint.parentElement.querySelector("[role=status]").textContent = "Not live"; // what comes next says otherwise
    live.classList.toggle("lost", yes);
  };

  const show = (html) => {
    const focused = document.activeElement;
    lost(false);
    const next = document.createElement("div");
    // A parsed document runs no script and loads nothing.
    next.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
    children(live, next);
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  };

  const like = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;

  const morph = (from, to) => {
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    children(from, to);
  };

  const children = (from, to) => {
    const wanted = new Set([...to.children].map((child) => child.id).filter(Boolean));
    const known = new Map();
    for (const child of [...from.children]) {
      if (!child.id) continue;
      if (wanted.has(child.id)) known.set(child.id, child);
      else child.remove();
    }
    let at = from.firstChild;
    for (const want of [...to.childNodes]) {
      const have = want.id ? known.get(want.id) : at;
      while (want.id && have && at && !at.id) at = without(at); // a part without an id in front of it is gone
      if (!have || !like(have, want)) {
        from.insertBefore(document.importNode(want, true), at);
        continue;
      }
      if (have === at) at = at.nextSibling;
      else from.insertBefore(have, at);
      morph(have, want);
    }
    while (at) at = without(at);
  };

  const without = (node) => {
    const next = node.nextSibling;
    node.remove();
    return next;
  };

  // A page that nobody sees needs no pictures, and a browser has few connections for each server.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => { if (!document.hidden) open(); });
})();
