//! Charts in a browser: nothing is cut off, on a screen and on a telephone.
//!
//! A script on a page with report and picture measures both. `PAGETIDE_PICTURES=FOLDER` keeps the
//! screenshot.

use crate::run::{run, skewed, stderr};
use std::path::Path;
use std::process::Command;

/// Per frame: letters outside their picture, and tables or pages that are too wide.
const MEASURE: &str = "<script>onload = () => {
  const faults = [];
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument, width = page.documentElement.clientWidth;
    if (page.documentElement.scrollWidth > width) faults.push(`${frame.id}: the page is cut`);
    for (const place of page.querySelectorAll('.scroll'))
      if (width > 1000 && place.scrollWidth > place.clientWidth)
        faults.push(`${frame.id}: a table is cut`);
    for (const picture of page.querySelectorAll('svg')) {
      const all = picture.getBoundingClientRect();
      for (const text of picture.querySelectorAll('text')) {
        const box = text.getBoundingClientRect();
        if (box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1
            || box.bottom > all.bottom + 1)
          faults.push(`${frame.id}: ${text.textContent} is cut`);
      }
    }
  }
  document.title = 'measured: ' + faults.join('; ');
}</script>";

fn chromium(page: &Path, more: &[&str]) -> Option<String> {
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1700,2600"]);
    command.args(more).arg(page).env("HOME", page.parent()?);
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn charts_are_whole_on_a_screen_and_on_a_telephone() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("a plain name").to_owned();
    let (svg, settings, report) = (path("mrc.svg"), path("settings.svg"), path("report.html"));
    let trace = skewed(dir.path(), 60_000, 6000);
    let trace = trace.to_str().expect("a plain name");
    let policies = "lru,active-inactive,mglru,s3fifo,pagetide,opt";
    let usual = ["--policy", policies, "--frames", "60,250,1000,4000", "--explain"];
    let files = ["--svg", &settings, "--report", &report];
    for args in [
        [&["replay", trace], &usual[..], &files[..]].concat(),
        vec!["mrc", trace, "--policy", policies, "--points", "9", "--svg", &svg],
    ] {
        let output = run(&args);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let read = |path: &str| std::fs::read_to_string(path).expect("it is written");
    for picture in [&svg, &settings] {
        assert!(read(picture).contains("skewed.trace"), "the trace's name is in {picture}");
    }
    let frames = [("screen", 1280, &report), ("telephone", 390, &report), ("curves", 920, &svg)];
    let frames = frames.map(|(name, width, path)| {
        let inside = read(path).replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe id={name} width={width} height=1200 srcdoc=\"{inside}\"></iframe>")
    });
    let page = dir.path().join("page.html");
    std::fs::write(&page, frames.concat() + MEASURE).expect("room");
    let Some(shown) = chromium(&page, &["--dump-dom"]) else {
        return eprintln!("SKIPPED: charts_are_whole_on_a_screen_and_on_a_telephone: no chromium");
    };
    assert!(shown.contains("<title>measured: </title>"), "{}", title_of(&shown));
    let shot = std::env::var("PAGETIDE_PICTURES").map_or(path("shot.png"), |to| to + "/shot.png");
    chromium(&page, &[&format!("--screenshot={shot}")]).expect("it was there before");
    assert!(std::fs::metadata(shot).expect("a screenshot").len() > 20_000, "something is on it");
}

fn title_of(page: &str) -> &str {
    let title = page.split("<title>measured").nth(1).and_then(|rest| rest.split('<').next());
    title.unwrap_or("nothing was measured")
}
