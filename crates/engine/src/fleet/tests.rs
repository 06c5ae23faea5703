//! A model of a whole fleet: three nodes that run the real [`Node`](super::Node) and [`Writer`](super::Writer), and
//! one database that runs the real [`Record`](super::Record), with crashes, pauses, lost answers and a failover.

mod canonical;
mod database;
mod explore;
mod faults;
mod mistakes;
mod model;
mod monitor;
mod process;
mod rest;
mod tables;
mod walk;
mod work;
