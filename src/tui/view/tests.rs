mod large;
mod scale;
mod small;
mod states;
mod support;
