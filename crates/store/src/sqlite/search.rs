//! The full-text index over what users and models have said.
//!
//! `said` numbers the texts; `said_words` is a contentless index with the same numbers, so the text itself is stored
//! only once, in its part. A text enters the index with the commit that completes it and leaves it with the commit that
//! changes or removes it: a search never finds something that a reader would not see.

use engine::ports::{Cursor, Found, Search};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::query::{id, limit};

/// Indexes the text of a part, replaces it, or takes it out. `part` is session, message and part.
pub(super) fn save(connection: &Connection, part: [&str; 3], text: Option<&str>) -> Result<()> {
    let known: Option<i64> = connection
        .prepare_cached("SELECT number FROM said WHERE session = ?1 AND message = ?2 AND part = ?3")?
        .query_row(part, |row| row.get(0))
        .optional()?;
    if let Some(number) = known {
        connection.prepare_cached("DELETE FROM said_words WHERE rowid = ?1")?.execute([number])?;
    }
    let number = match (known, text) {
        (None, None) => return Ok(()),
        (Some(number), None) => {
            connection.prepare_cached("DELETE FROM said WHERE number = ?1")?.execute([number])?;
            return Ok(());
        }
        (Some(number), Some(_)) => number,
        (None, Some(_)) => {
            connection
                .prepare_cached("INSERT INTO said (session, message, part) VALUES (?1, ?2, ?3)")?
                .execute(part)?;
            connection.last_insert_rowid()
        }
    };
    connection
        .prepare_cached("INSERT INTO said_words (rowid, text) VALUES (?1, ?2)")?
        .execute(params![number, text])?;
    Ok(())
}

pub(super) fn remove_message(connection: &Connection, session: &str, message: &str) -> Result<()> {
    for sql in [
        "DELETE FROM said_words WHERE rowid IN (
             SELECT number FROM said WHERE session = ?1 AND message = ?2)",
        "DELETE FROM said WHERE session = ?1 AND message = ?2",
    ] {
        connection.prepare_cached(sql)?.execute([session, message])?;
    }
    Ok(())
}

pub(super) fn remove_session(connection: &Connection, session: &str) -> Result<()> {
    for sql in [
        "DELETE FROM said_words WHERE rowid IN (SELECT number FROM said WHERE session = ?1)",
        "DELETE FROM said WHERE session = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([session])?;
    }
    Ok(())
}

pub(super) fn find(connection: &Connection, search: &Search) -> Result<Vec<Found>> {
    // Words contain only letters and digits, so quoting them is enough; the star makes each a prefix.
    let words: Vec<String> = search.words.iter().map(|word| format!("\"{word}\"*")).collect();
    let before = search.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    connection
        .prepare_cached(
            "SELECT said.number, said.session, said.message, message.created, said.part, part.body ->> '$.text'
             FROM said_words
             CROSS JOIN said ON said.number = said_words.rowid
             CROSS JOIN message ON message.session = said.session AND message.id = said.message
             CROSS JOIN part ON part.session = said.session AND part.message = said.message AND part.id = said.part
             WHERE said_words MATCH ?1 AND said_words.rowid < ?2
             ORDER BY said_words.rowid DESC LIMIT ?3",
        )?
        .query_map(params![words.join(" "), before, limit(Some(search.limit))], |row| {
            let place = Cursor { id: id(row, 2)?, created: row.get(3)? };
            let (number, session, part) = (row.get(0)?, id(row, 1)?, id(row, 4)?);
            Ok(Found { number, session, place, part, text: row.get(5)? })
        })?
        .collect()
}
