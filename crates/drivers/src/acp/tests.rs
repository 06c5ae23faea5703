mod harness;
mod mapping;
mod matrix;
mod recordings;
mod replay;
mod schema;
mod scripts;
mod turns;
