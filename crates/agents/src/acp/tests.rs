mod mapping;
mod matrix;
mod recordings;
mod replay;
mod scripts;
mod turns;
mod world;
