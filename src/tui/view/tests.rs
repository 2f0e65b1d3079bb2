mod large;
mod notes;
mod scale;
mod small;
mod states;
mod support;
