// Tooltips and zoom for the charts. Everything is readable without this script.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const show = (words, event) => {
    tip.textContent = words;
    tip.hidden = false;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = (event.clientY > 60 ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18) + "px";
  };
  const hide = () => { tip.hidden = true; };
  for (const chart of document.querySelectorAll("svg.chart")) {
    chart.addEventListener("pointermove", (event) => {
      const words = event.target.querySelector && event.target !== chart && event.target.querySelector(":scope > title");
      if (words) show(words.textContent, event); else if (!chart.dataset.low) hide();
    });
    chart.addEventListener("pointerleave", hide);
  }
  const number = (value, step) => value.toLocaleString("en", { maximumFractionDigits: Math.max(0, Math.min(9, -Math.floor(Math.log10(step)))) });
  const ticks = (low, high) => {
    const raw = (high - low) / 6, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high && found.length < 12; n++) found.push(n * step);
    return [found, step];
  };
  const add = (parent, name, attributes) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };
  for (const box of document.querySelectorAll("[data-zoom]")) {
    const chart = box.querySelector("svg.chart"), plot = chart.querySelector("svg.plot");
    if (!plot) continue;
    const all = { low: +chart.dataset.low, high: +chart.dataset.high }, left = +chart.dataset.left, right = +chart.dataset.right;
    const [x0, y0, wide, tall] = plot.getAttribute("viewBox").split(" ").map(Number);
    const labels = chart.querySelector(".ticks");
    const y = labels.querySelector("text") ? labels.querySelector("text").getAttribute("y") : 0;
    let now = { ...all };
    const draw = () => {
      const share = (value) => (value - all.low) / (all.high - all.low);
      const from = x0 + wide * share(now.low), width = Math.max(wide * (share(now.high) - share(now.low)), wide / 1e5);
      plot.setAttribute("viewBox", [from, y0, width, tall].join(" "));
      labels.textContent = "";
      const [found, step] = ticks(now.low, now.high);
      for (const value of found) {
        const place = left + (right - left) * (value - now.low) / (now.high - now.low);
        add(labels, "text", { x: place, y, "text-anchor": "middle", class: "t s tick" }).textContent = number(value, step);
      }
    };
    const zoom = (low, high) => {
      const span = Math.min(all.high - all.low, Math.max(high - low, (all.high - all.low) / 500));
      low = Math.min(Math.max(low, all.low), all.high - span);
      now = { low, high: low + span };
      draw();
    };
    const value = (event) => {
      const frame = chart.getBoundingClientRect(), unit = frame.width / chart.viewBox.baseVal.width;
      const place = Math.min(Math.max((event.clientX - frame.left) / unit, left), right);
      return [now.low + (now.high - now.low) * (place - left) / (right - left), place];
    };
    const cursor = add(chart, "line", { y1: y0, y2: y0 + tall, class: "cursor", visibility: "hidden" });
    const brush = add(chart, "rect", { y: y0, height: tall, class: "brush", visibility: "hidden" });
    let began = null;
    chart.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) { began = value(event); event.preventDefault(); box.focus({ preventScroll: true }); }
    });
    chart.addEventListener("pointermove", (event) => {
      const [at, place] = value(event);
      cursor.setAttribute("x1", place); cursor.setAttribute("x2", place); cursor.setAttribute("visibility", "visible");
      const words = event.target.querySelector && event.target !== chart && event.target !== plot && event.target.querySelector(":scope > title");
      show((words ? words.textContent + " · " : "") + chart.dataset.unit + " " + number(at, (now.high - now.low) / 500), event);
      if (!began) return;
      brush.setAttribute("x", Math.min(place, began[1])); brush.setAttribute("width", Math.abs(place - began[1])); brush.setAttribute("visibility", "visible");
    });
    addEventListener("pointerup", (event) => {
      if (!began) return;
      const [at, place] = value(event), [from, was] = began;
      began = null; brush.setAttribute("visibility", "hidden");
      if (Math.abs(place - was) > 6) zoom(Math.min(at, from), Math.max(at, from));
    });
    chart.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hide(); });
    chart.addEventListener("dblclick", () => zoom(all.low, all.high));
    box.addEventListener("keydown", (event) => {
      const span = now.high - now.low, middle = (now.high + now.low) / 2;
      const keys = {
        "+": () => zoom(middle - span / 4, middle + span / 4), "=": () => zoom(middle - span / 4, middle + span / 4),
        "-": () => zoom(middle - span, middle + span), Escape: () => zoom(all.low, all.high),
        ArrowLeft: () => zoom(now.low - span / 5, now.high - span / 5), ArrowRight: () => zoom(now.low + span / 5, now.high + span / 5),
      };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
  }
  // A printed page shows what is folded away on the screen.
  const folded = [];
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details:not([open])")) { one.open = true; folded.push(one); } });
  addEventListener("afterprint", () => { for (const one of folded.splice(0)) one.open = false; });
})();
