// Asks adblock-rust about requests. Arguments: a file of requests, each a line
// of type, page and URL with tabs between them, and the lists. Prints what it
// takes to build the engine; then, for each line of standard input, asks about
// all requests as often as that says, and prints the nanoseconds of processor
// time it took and how many are blocked.

use adblock::lists::{FilterSet, ParseOptions};
use adblock::{request::Request, Engine};
use std::io::BufRead;

fn cpu() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let start = cpu();
    let mut set = FilterSet::new(false);
    for path in &args[2..] {
        let text = std::fs::read_to_string(path).unwrap();
        set.add_filter_list(&text, ParseOptions::default());
    }
    let engine = Engine::from_filter_set(set, true);
    println!("{}", cpu() - start);
    let text = std::fs::read_to_string(&args[1]).unwrap();
    let asks: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
    for line in std::io::stdin().lock().lines() {
        let times: usize = line.unwrap().parse().unwrap();
        let start = cpu();
        let mut blocked = 0;
        for _ in 0..times {
            blocked = 0;
            for ask in &asks {
                if let Ok(r) = Request::new(ask[2], ask[1], ask[0]) {
                    if engine.check_network_request(&r).matched {
                        blocked += 1;
                    }
                }
            }
        }
        println!("{} {}", cpu() - start, blocked);
    }
}
