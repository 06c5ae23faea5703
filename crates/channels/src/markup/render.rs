//! Renders Markdown for all services.

use std::mem::discriminant;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use super::{Flavour, beside, is_safe, table};

const RULE: &str = "⸻";

/// An open element and its content so far, in the service's markup.
struct Frame {
    kind: Kind,
    out: String,
}

enum Kind {
    /// A paragraph, or any other element without markup of its own.
    Paragraph,
    Heading,
    Quote,
    /// Number of the next item, if the list is numbered.
    List(Option<u64>),
    /// The bullet or number of the item.
    Item(String),
    /// The language, if given.
    Block(Option<String>),
    Table(Vec<Vec<String>>),
    Row(Vec<String>),
    Cell,
    Strong,
    Emphasis,
    Strike,
    /// Address of the link.
    Link(String),
}

struct Renderer<'a> {
    flavour: &'a dyn Flavour,
    /// Open elements, outermost first.
    open: Vec<Frame>,
    /// Finished output.
    whole: String,
}

/// Converts Markdown to a service's markup.
pub fn render(markdown: &str, flavour: &dyn Flavour) -> String {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut renderer = Renderer { flavour, open: Vec::new(), whole: String::new() };
    for event in Parser::new_ext(markdown, options) {
        renderer.step(event);
    }
    renderer.whole.trim().to_owned()
}

impl Renderer<'_> {
    fn step(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => {
                let kind = self.kind(tag);
                self.open.push(Frame { kind, out: String::new() });
            }
            Event::End(_) => self.close(),
            // HTML tags are shown as text.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) if self.is_raw() => self.text(&code),
            Event::Code(code) => self.write(&self.flavour.code(&code)),
            // A line break in the source is kept.
            Event::SoftBreak | Event::HardBreak => self.write("\n"),
            Event::Rule => self.block(RULE),
            Event::TaskListMarker(is_done) => self.mark(if is_done { "☑ " } else { "☐ " }),
            // These extensions are not enabled.
            Event::InlineMath(_) | Event::DisplayMath(_) | Event::FootnoteReference(_) => {}
        }
    }

    fn kind(&mut self, tag: Tag<'_>) -> Kind {
        match tag {
            Tag::Heading { .. } => Kind::Heading,
            Tag::BlockQuote(_) => Kind::Quote,
            Tag::List(first) => Kind::List(first),
            Tag::Item => Kind::Item(self.bullet()),
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => Kind::Block(language(&info)),
            Tag::CodeBlock(CodeBlockKind::Indented) => Kind::Block(None),
            Tag::Table(_) => Kind::Table(Vec::new()),
            Tag::TableHead | Tag::TableRow => Kind::Row(Vec::new()),
            Tag::TableCell => Kind::Cell,
            Tag::Strong => Kind::Strong,
            Tag::Emphasis => Kind::Emphasis,
            Tag::Strikethrough => Kind::Strike,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => Kind::Link(dest_url.into_string()),
            _ => Kind::Paragraph,
        }
    }

    /// Closes the innermost element and adds it to its parent.
    fn close(&mut self) {
        let Some(Frame { kind, out }) = self.open.pop() else { return };
        let is_again = self.open.iter().any(|frame| discriminant(&frame.kind) == discriminant(&kind));
        let is_bare = self.is_raw() || out.is_empty();
        match kind {
            Kind::Paragraph | Kind::List(_) => self.block(&out),
            Kind::Heading if is_bare => self.block(&out),
            Kind::Heading => self.block(&self.flavour.strong(&out)),
            Kind::Quote if is_bare || is_again => self.block(&out),
            Kind::Quote => self.block(&self.flavour.quote(&out)),
            Kind::Item(bullet) => self.block(&format!("{bullet}{out}")),
            Kind::Block(language) => {
                let code = out.strip_suffix('\n').unwrap_or(&out);
                self.block(&self.flavour.block(language.as_deref(), code));
            }
            Kind::Table(rows) => self.block(&table::render(&rows, self.flavour)),
            Kind::Row(cells) => {
                if let Some(Frame { kind: Kind::Table(rows), .. }) = self.open.last_mut() {
                    rows.push(cells);
                }
            }
            Kind::Cell => {
                if let Some(Frame { kind: Kind::Row(cells), .. }) = self.open.last_mut() {
                    cells.push(out);
                }
            }
            Kind::Link(address) => self.link(&out, &address, is_again),
            _ if is_bare || is_again => self.write(&out),
            Kind::Strong if self.is_in_heading() => self.write(&out),
            Kind::Strong => self.write(&self.flavour.strong(&out)),
            Kind::Emphasis => self.write(&self.flavour.emphasis(&out)),
            Kind::Strike => self.write(&self.flavour.strike(&out)),
        }
    }

    fn link(&mut self, inner: &str, address: &str, is_again: bool) {
        let written = if self.is_raw() {
            beside(inner, address)
        } else if is_again || !is_safe(address) {
            beside(inner, &self.flavour.text(address))
        } else if inner.is_empty() {
            self.flavour.link(&self.flavour.text(address), address)
        } else {
            self.flavour.link(inner, address)
        };
        self.write(&written);
    }

    /// Adds text, escaped unless the enclosing element escapes it as a whole.
    fn text(&mut self, text: &str) {
        if self.is_raw() { self.write(text) } else { self.write(&self.flavour.text(text)) }
    }

    /// Adds inline content.
    fn write(&mut self, text: &str) {
        self.open.last_mut().map_or(&mut self.whole, |frame| &mut frame.out).push_str(text);
    }

    fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let (out, apart) = match self.open.last_mut() {
            Some(Frame { kind: Kind::List(_) | Kind::Item(_), out }) => (out, "\n"),
            Some(Frame { out, .. }) => (out, "\n\n"),
            None => (&mut self.whole, "\n\n"),
        };
        // The previous block may end with line breaks.
        out.truncate(out.trim_end_matches('\n').len());
        if !out.is_empty() {
            out.push_str(apart);
        }
        out.push_str(text);
    }

    /// The bullet or number of the next item of the innermost list.
    fn bullet(&mut self) -> String {
        let depth = self.open.iter().filter(|frame| matches!(frame.kind, Kind::List(_))).count();
        let indent = "  ".repeat(depth.saturating_sub(1));
        match self.open.last_mut() {
            Some(Frame { kind: Kind::List(Some(number)), .. }) => {
                let bullet = format!("{indent}{number}. ");
                *number = number.saturating_add(1);
                bullet
            }
            _ => format!("{indent}• "),
        }
    }

    /// Replaces the bullet of the innermost item with a checkbox.
    fn mark(&mut self, mark: &str) {
        let item = self.open.iter_mut().rev().find_map(|frame| match &mut frame.kind {
            Kind::Item(bullet) => Some(bullet),
            _ => None,
        });
        if let Some(bullet) = item {
            bullet.truncate(bullet.len() - bullet.trim_start().len());
            bullet.push_str(mark);
        }
    }

    /// True inside code and tables, which are rendered as a whole.
    fn is_raw(&self) -> bool {
        self.open.iter().any(|frame| matches!(frame.kind, Kind::Block(_) | Kind::Cell))
    }

    fn is_in_heading(&self) -> bool {
        self.open.iter().any(|frame| matches!(frame.kind, Kind::Heading))
    }
}

/// The language: the first word after the opening fence.
fn language(info: &str) -> Option<String> {
    info.split([' ', ',', '\t']).next().filter(|it| !it.is_empty()).map(str::to_owned)
}
