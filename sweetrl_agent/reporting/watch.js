// Keeps the progress of a watched run up to date, and loads the page again when its files have changed.
function showLines(lines) {
  document.getElementById("live-lines").replaceChildren(...lines.map((line) => element("li", "", line)));
}

async function follow() {
  try {
    const { version, lines } = await (await fetch("status.json", { cache: "no-store" })).json();
    if (version !== data.version) {
      location.reload();
      return;
    }
    showLines(lines);
  } catch {
    showLines(["The command that watches does not answer; it may have ended. Start it again and reload this page."]);
  }
  setTimeout(follow, 3000);
}

setTimeout(follow, 3000);
