mod large;
mod small;
mod states;
mod support;
