//! A report's self-contained HTML page.

use super::plots;
use crate::machine;
use crate::table::{Table, escape};

const STYLE: &str = "
:root{color-scheme:light dark;--fg:#1d2330;--dim:#5c6675;--bg:#fbfbfa;--card:#fff;--line:#dde1e7}
@media(prefers-color-scheme:dark){
:root{--fg:#e6e9ee;--dim:#9aa4b2;--bg:#14171c;--card:#1b1f26;--line:#313843}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:88rem;padding:2rem 1.2rem 4rem;background:var(--bg);color:var(--fg);
font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.9rem;margin:0 0 .3rem}h2{font-size:1.3rem;margin:2.6rem 0 .2rem}
p{max-width:46rem;margin:.4rem 0}.dim,figcaption,th{color:var(--dim)}
.legend{display:flex;flex-wrap:wrap;gap:.4rem 1.4rem;margin:1.2rem 0;padding:0;list-style:none}
.legend i{display:inline-block;width:.85em;height:.85em;border-radius:3px;
margin-right:.45em;vertical-align:-.06em}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(28rem,100%),1fr));
gap:1rem;margin:1rem 0}
figure{margin:0;padding:1rem;background:var(--card);border:1px solid var(--line);border-radius:10px}
figure h3{margin:0 0 .4rem;font-size:1rem}figcaption{font-size:.85rem;margin-top:.5rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--fg);font-family:system-ui,sans-serif}
.scroll{overflow-x:auto}
@media(max-width:40rem){figure{overflow-x:auto}svg{min-width:34rem}}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .7rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:500}th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}
";

#[derive(Debug)]
pub(crate) struct Page(String);

impl Page {
    /// Begins a page. `paragraph` is HTML, and `names` make the legend.
    pub(crate) fn new(title: &str, paragraph: &str, names: &[&str]) -> Page {
        let legend = |name: &&str| {
            let colour = plots::css_colour(name);
            format!("<li><i style=\"background:{colour}\"></i>{}</li>", escape(name))
        };
        Page(format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>\
             <p>{paragraph}</p><p class=\"dim\">{}, pagetide {}</p><ul class=\"legend\">{}</ul>",
            escape(&machine::describe()),
            env!("CARGO_PKG_VERSION"),
            names.iter().map(legend).collect::<String>(),
        ))
    }

    /// Figures stand side by side above the table. `words` come from [`heading`], [`paragraph`] and
    /// [`remark`].
    pub(crate) fn section(&mut self, words: &str, figures: &[Figure], table: Option<&Table<'_>>) {
        let figures: String = figures.iter().map(Figure::to_html).collect();
        let table = table.map(Table::to_html).unwrap_or_default();
        self.0.push_str(&format!(
            "<section>{words}<div class=\"plots\">{figures}</div>{table}</section>"
        ));
    }

    /// Ends the page with HTML `text`.
    pub(crate) fn finish(self, title: &str, text: &str) -> String {
        let Page(before) = self;
        format!("{before}<section>{}<p>{text}</p></section></body></html>\n", heading(title))
    }
}

pub(crate) fn heading(title: &str) -> String {
    format!("<h2>{}</h2>", escape(title))
}

pub(crate) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escape(text))
}

pub(crate) fn remark(text: &str) -> String {
    format!("<p class=\"dim\">{}</p>", escape(text))
}

#[derive(Clone, Debug)]
pub(crate) struct Figure {
    svg: String,
    title: String,
    caption: String,
}

impl Figure {
    /// Takes an `svg` from [`plots`](super::plots).
    pub(crate) fn new(svg: String, title: &str, caption: &str) -> Figure {
        Figure { svg, title: title.to_owned(), caption: caption.to_owned() }
    }

    fn to_html(&self) -> String {
        let Figure { svg, title, caption } = self;
        let (title, caption) = (escape(title), escape(caption));
        format!("<figure><h3>{title}</h3>{svg}<figcaption>{caption}</figcaption></figure>")
    }
}
