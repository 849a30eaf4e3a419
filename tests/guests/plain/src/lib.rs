//! Functions of plain WIT types, honest and hostile.

use exports::demo::plain::{counters, hostile, shapes};
use std::cell::Cell;

wit_bindgen::generate!({ world: "plain", path: "wit" });

struct Plain;

struct Counter(Cell<u32>);

impl Guest for Plain {
    fn greet(name: String) -> String {
        format!("Hello, {name}!")
    }

    fn read_text(path: String) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

impl shapes::Guest for Plain {
    fn describe(shape: shapes::Shape, colour: shapes::Colour, style: shapes::Style) -> String {
        format!("{colour:?} {shape:?} {}", style.bits())
    }

    fn move_by(points: Vec<shapes::Point>, (x, y): (i32, i32)) -> Vec<shapes::Point> {
        points.into_iter().map(|point| shapes::Point { x: point.x + x, y: point.y + y, ..point }).collect()
    }

    fn divide(dividend: i64, divisor: i64) -> Result<i64, String> {
        dividend.checked_div(divisor).ok_or_else(|| format!("{dividend} cannot be divided by {divisor}"))
    }

    fn same(number: u64) -> u64 {
        number
    }

    fn initial(text: String) -> Option<char> {
        text.chars().next()
    }

    fn nested(value: Option<Option<u8>>) -> Option<Option<u8>> {
        value
    }

    fn reversed(mut data: Vec<u8>) -> Vec<u8> {
        data.reverse();
        data
    }

    fn checked(values: Vec<f64>) -> Vec<Result<f64, String>> {
        values
            .into_iter()
            .map(|value| if value < 0.0 { Err("negative".to_owned()) } else { Ok(value.sqrt()) })
            .collect()
    }

    fn nothing() {}
}

impl counters::Guest for Plain {
    type Counter = Counter;

    fn open() -> counters::Counter {
        counters::Counter::new(Counter(Cell::new(0)))
    }

    fn neighbour() -> u32 {
        7
    }
}

impl counters::GuestCounter for Counter {
    fn new() -> Self {
        Self(Cell::new(0))
    }

    fn next(&self) -> u32 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

impl hostile::Guest for Plain {
    fn wide(_value: Vec<hostile::Most>) {}

    fn deep(_value: Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<Vec<u8>>>>>>>>>>>>>>) {}

    fn flood(count: u32) -> Vec<String> {
        vec![String::new(); count as usize]
    }

    fn spin() {
        loop {
            std::hint::spin_loop();
        }
    }

    fn crash() {
        panic!("on purpose");
    }

    fn same(number: u64) -> u64 {
        number
    }
}

export!(Plain);
