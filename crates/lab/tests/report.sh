#!/bin/sh
# Drives the report in a headless Chromium: the script runs, the slider moves the map, the charts and the sums, and the page is as
# wide as a phone. Needs `chromium` and a built `pageblock`; passes over, and says so, where there is no browser.
set -eu
tool=${1:-target/release/pageblock}
root=$(cd "$(dirname "$0")/../../.." && pwd)
browser=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$browser" ]; then
    echo "no chromium: the report was not driven"
    exit 0
fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$tool" -q replay "$root/traces/file-churn-head/trace.txt.zst" --out "$place/report" >/dev/null
# The page with a driver behind its script, which leaves what it found in the title.
cat > "$place/driver.html" <<'DRIVER'
<script>
addEventListener("load", () => {
  const moment = () => document.getElementById("moment").textContent;
  const sums = () => [...document.querySelectorAll("#maps figcaption")].map(one => one.textContent).join();
  const pixels = () => [...document.querySelectorAll("#maps canvas")].map(one => one.toDataURL()).join();
  const before = [moment(), sums(), pixels()];
  const slider = document.getElementById("time");
  slider.value = 0;
  slider.dispatchEvent(new Event("input"));
  const after = [moment(), sums(), pixels()];
  const moved = before.every((text, at) => text !== after[at]) && after[0] === "0.00 s";
  document.querySelectorAll("#maps figure:last-child button")[2].click();
  const difference = sums().includes("whole only in Linux: ");
  document.querySelector("#maps canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  const zoomed = document.getElementById("zoom").open && document.querySelectorAll("#frames canvas").length === 2;
  document.getElementById("zoom").close();
  const narrow = document.documentElement.scrollWidth <= innerWidth;
  const ready = document.documentElement.dataset.ready === "yes";
  document.title = JSON.stringify({ ready, moved, difference, zoomed, narrow });
});
</script>
DRIVER
cat "$place/report/index.html" "$place/driver.html" > "$place/driven.html"
for width in 500 1400; do
    "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$place/profile$width" --window-size=$width,900 \
        --virtual-time-budget=10000 --dump-dom "file://$place/driven.html" > "$place/dom.html" 2>"$place/log"
    found=$(sed -n 's/.*<title>\(.*\)<\/title>.*/\1/p' "$place/dom.html" | head -1)
    wanted='{"ready":true,"moved":true,"difference":true,"zoomed":true,"narrow":true}'
    if [ "$found" != "$wanted" ]; then
        echo "at $width pixels: $found instead of $wanted" >&2
        exit 1
    fi
done
echo "the report was driven at 500 and 1400 pixels"
