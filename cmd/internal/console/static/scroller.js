// Scroller shows any number of rows of one height with the few elements that are visible.
// Browsers limit the height of an element to some million pixels. In a longer list, small
// steps move by pixels, and big ones jump to the same part of the list.

const maxHeight = 6_000_000;

export class Scroller {
  // row(i) returns the element of row i; range(first, last) is called when other rows
  // are visible.
  constructor(el, { height, row, range, label }) {
    this.el = el;
    this.height = height;
    this.row = row;
    this.range = range || (() => {});
    this.rows = new Map();
    this.count = 0;
    this.offset = 0;
    this.last = 0;
    el.classList.add("scroller");
    el.tabIndex = 0;
    el.setAttribute("role", "list");
    if (label) el.setAttribute("aria-label", label);
    this.inner = document.createElement("div");
    this.inner.setAttribute("role", "presentation");
    el.replaceChildren(this.inner);
    this.onScroll = () => this.scrolled();
    el.addEventListener("scroll", this.onScroll, { passive: true });
    el.addEventListener("keydown", e => this.key(e));
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(el);
  }

  destroy() {
    this.observer.disconnect();
    this.el.removeEventListener("scroll", this.onScroll);
  }

  setCount(n) {
    if (n < this.count) for (const [i, el] of this.rows) if (i >= n) { el.remove(); this.rows.delete(i); }
    this.count = n;
    this.layout();
  }

  layout() {
    this.total = this.count * this.height;
    this.physical = Math.min(this.total, maxHeight);
    this.view = this.el.clientHeight;
    this.inner.style.height = this.physical + "px";
    if (this.total <= this.physical) this.place(0);
    this.render();
  }

  // top is the position in pixels of the whole list.
  get top() { return this.el.scrollTop + this.offset; }

  setTop(y) {
    y = Math.max(0, Math.min(y, this.total - this.view));
    const local = this.total > this.physical ? Math.round(y * (this.physical - this.view) / (this.total - this.view)) : y;
    this.el.scrollTop = local;
    this.last = this.el.scrollTop;
    this.place(this.total > this.physical ? Math.round(y - this.last) : 0);
    this.render();
  }

  scrolled() {
    const top = this.el.scrollTop, step = Math.abs(top - this.last), more = this.total - this.physical;
    if (step === 0) return;
    if (more > 0) {
      const near = top < this.view && this.offset > 0 || top > this.physical - 2 * this.view && this.offset < more;
      if (step < this.view && near) return this.setTop(top + this.offset);
      if (step >= this.view) this.place(Math.round(top * more / (this.physical - this.view)));
    }
    this.last = top;
    this.render();
  }

  // place moves the rows to another offset of the list.
  place(offset) {
    if (offset === this.offset) return;
    this.offset = offset;
    for (const [i, el] of this.rows) this.position(el, i);
  }

  position(el, i) { el.style.transform = "translateY(" + (i * this.height - this.offset) + "px)"; }

  clear() {
    this.inner.replaceChildren();
    this.rows.clear();
  }

  // refresh shows new content in the visible rows.
  refresh() {
    const focused = document.activeElement && this.inner.contains(document.activeElement) ? document.activeElement.closest("[data-index]") : null;
    const index = focused ? +focused.dataset.index : -1;
    this.clear();
    this.render();
    if (index >= 0 && this.rows.has(index)) focusRow(this.rows.get(index));
  }

  get first() { return Math.max(0, Math.floor(this.top / this.height)); }

  render() {
    if (!this.view) return;
    const first = Math.max(0, this.first - 3);
    const last = Math.min(this.count - 1, Math.ceil((this.top + this.view) / this.height) + 3);
    for (const [i, el] of this.rows) if (i < first || i > last) { el.remove(); this.rows.delete(i); }
    let after = null; // rows are in order, for the keyboard and for screen readers
    for (let i = last; i >= first; i--) {
      let el = this.rows.get(i);
      if (!el) {
        el = this.row(i);
        el.classList.add("row");
        el.dataset.index = i;
        el.setAttribute("role", "listitem");
        el.setAttribute("aria-setsize", this.count);
        el.setAttribute("aria-posinset", i + 1);
        el.style.height = this.height + "px";
        this.position(el, i);
        this.rows.set(i, el);
        this.inner.insertBefore(el, after);
      }
      after = el;
    }
    if (last >= first) this.range(first, last);
  }

  // show scrolls until row i is visible.
  show(i, where = "nearest") {
    const y = i * this.height;
    if (where === "center") this.setTop(y - this.view / 2 + this.height);
    else if (y < this.top) this.setTop(y);
    else if (y + this.height > this.top + this.view) this.setTop(y + this.height - this.view);
  }

  // move moves the focus by some rows.
  move(step) {
    const current = document.activeElement && document.activeElement.closest("[data-index]");
    const from = current && this.inner.contains(current) ? +current.dataset.index : this.first - (step > 0 ? 1 : 0);
    const to = Math.max(0, Math.min(this.count - 1, from + step));
    if (this.count === 0) return;
    this.show(to);
    const el = this.rows.get(to);
    if (el) focusRow(el);
  }

  key(e) {
    if (e.target !== this.el || e.ctrlKey || e.metaKey || e.altKey) return;
    const step = { ArrowDown: this.height, ArrowUp: -this.height }[e.key];
    if (step) { this.setTop(this.top + step); e.preventDefault(); }
    if (e.key === "Home") { this.setTop(0); e.preventDefault(); }
    if (e.key === "End") { this.setTop(this.total); e.preventDefault(); }
  }
}

function focusRow(el) {
  const target = el.matches("a,button,[tabindex]") ? el : el.querySelector("a,button");
  if (target) target.focus({ preventScroll: true });
}
