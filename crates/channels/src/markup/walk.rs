//! The walk over Markdown that is the same for all services.

use std::mem::discriminant;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use super::{Flavour, beside, is_safe, table};

const RULE: &str = "⸻";

/// Something that is open, and what has been written into it so far, in the service's form.
struct Frame {
    kind: Kind,
    out: String,
}

enum Kind {
    /// A paragraph, or anything else that has no form of its own.
    Paragraph,
    Heading,
    Quote,
    /// The number of the next item, if they are counted.
    List(Option<u64>),
    /// What stands before it.
    Item(String),
    /// The language, if it is known.
    Block(Option<String>),
    Table(Vec<Vec<String>>),
    Row(Vec<String>),
    Cell,
    Strong,
    Emphasis,
    Strike,
    /// The address.
    Link(String),
}

struct Walk<'a> {
    flavour: &'a dyn Flavour,
    /// What is open, outermost first.
    open: Vec<Frame>,
    /// What is closed.
    whole: String,
}

/// Puts Markdown into a service's form.
pub(super) fn walk(markdown: &str, flavour: &dyn Flavour) -> String {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut walk = Walk { flavour, open: Vec::new(), whole: String::new() };
    for event in Parser::new_ext(markdown, options) {
        walk.step(event);
    }
    walk.whole.trim().to_owned()
}

impl Walk<'_> {
    fn step(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => {
                let kind = self.kind(tag);
                self.open.push(Frame { kind, out: String::new() });
            }
            Event::End(_) => self.close(),
            // Tags that somebody wrote are shown as they were written.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) if self.is_raw() => self.text(&code),
            Event::Code(code) => self.write(&self.flavour.code(&code)),
            // A line that an agent broke is meant to be broken.
            Event::SoftBreak | Event::HardBreak => self.write("\n"),
            Event::Rule => self.block(RULE),
            Event::TaskListMarker(is_done) => self.mark(if is_done { "☑ " } else { "☐ " }),
            // Not enabled.
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

    /// Closes what was opened last, and gives it to what it is in.
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

    /// Words, escaped unless whoever they are for does that.
    fn text(&mut self, text: &str) {
        if self.is_raw() { self.write(text) } else { self.write(&self.flavour.text(text)) }
    }

    /// Adds something among words.
    fn write(&mut self, text: &str) {
        self.open.last_mut().map_or(&mut self.whole, |frame| &mut frame.out).push_str(text);
    }

    /// Adds something that stands by itself.
    fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let (out, apart) = match self.open.last_mut() {
            Some(Frame { kind: Kind::List(_) | Kind::Item(_), out }) => (out, "\n"),
            Some(Frame { out, .. }) => (out, "\n\n"),
            None => (&mut self.whole, "\n\n"),
        };
        // What came before may have brought line breaks of its own.
        out.truncate(out.trim_end_matches('\n').len());
        if !out.is_empty() {
            out.push_str(apart);
        }
        out.push_str(text);
    }

    /// What stands before the next item of the innermost list.
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

    /// Puts a box where the bullet of the innermost item is.
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

    /// Whether words are kept as they are for now: code and tables are put into form as a whole.
    fn is_raw(&self) -> bool {
        self.open.iter().any(|frame| matches!(frame.kind, Kind::Block(_) | Kind::Cell))
    }

    fn is_in_heading(&self) -> bool {
        self.open.iter().any(|frame| matches!(frame.kind, Kind::Heading))
    }
}

/// The first word after the marks that open a block of code.
fn language(info: &str) -> Option<String> {
    info.split([' ', ',', '\t']).next().filter(|it| !it.is_empty()).map(str::to_owned)
}
