// Light or dark: as the system has it, unless somebody has chosen.

const KEY = "mhub-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** @returns {"light" | "dark"} */
export function theme() {
  const kept = read();
  if (kept === "light" || kept === "dark") return kept;
  return dark.matches ? "dark" : "light";
}

export function applyTheme() {
  document.documentElement.dataset.theme = theme();
}

export function toggleTheme() {
  const wanted = theme() === "dark" ? "light" : "dark";
  try {
    // What the system says needs no memory, and follows the system again.
    if (wanted === (dark.matches ? "dark" : "light")) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, wanted);
  } catch {
    // Storage may be switched off; then the choice is for this page.
  }
  document.documentElement.dataset.theme = wanted;
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

dark.addEventListener("change", applyTheme);
addEventListener("storage", applyTheme);
