//! Notices on screens of several sizes, and what pops up.

use crossterm::event::KeyCode;
use insta::assert_snapshot;

use super::support::*;
use crate::tui::event::{Msg, WorkerEvent};

/// A file that cannot be read, far down in the file system.
fn refused() -> Chat {
    let mut chat = Chat::ready();
    let path = "/home/someone/projects/a-project-with-a-long-name/documents/drafts/2025/notes of the meeting.txt";
    chat.send(Msg::FileRead {
        path: path.into(),
        result: Err("it is not UTF-8 text (byte 4711)".to_owned()),
    });
    chat
}

#[test]
fn a_notice_has_the_lines_it_needs() {
    assert_snapshot!(resize(&mut refused(), 80, 24), @r#"
    Type a message, or / for the commands.
    ~ 16
    ✗ not attached: it is not UTF-8 text (byte 4711)
      (`/home/someone/projects/a-project-with-a-long-name/documents/drafts/2025/note
      s of the meeting.txt`)
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Enter send  F1 help  Ctrl-J new line  Ctrl-T thinking  Ctrl-R again  Alt-E edit
    tiny · cpu · reasoning medium · context 0/1,000
    "#);
    assert_snapshot!(resize(&mut refused(), 40, 12), @r#"
    Type a message, or / for the commands.
    ~ 5
    ✗ not attached: it is not UTF-8 text
      (byte 4711) (`/home/…e meeting.txt`)
    ────────────────────────────────────────
    › █
    Enter send  F1 help  Ctrl-J new line
    tiny · cpu · reasoning medium · 0/1,000
    "#);
}

#[test]
fn a_notice_is_seen_on_the_smallest_screen() {
    assert_snapshot!(resize(&mut refused(), 20, 5), @r#"
    ✗ not attached: it
      is not UTF-8 text
      (byte 4711) …
    › █
    tiny · 0/1,000
    "#);
    let mut chat = answering();
    chat.ctrl('r');
    assert_snapshot!(resize(&mut chat, 20, 5), @r#"
    ! the answer is
      still coming: Esc
      stops it
    › █
    tiny · 0/1,000
    "#);
}

#[test]
fn a_way_out_is_not_cut_on_a_small_screen() {
    let mut chat = Chat::ready();
    let reason = "cannot write the file: the disk is full and so are all the others that were looked at, one after the other, so that nothing was written and what was there is as it was before";
    chat.send(Msg::Problem(format!(
        "{reason}; `/export` with another name may help"
    )));
    assert_snapshot!(resize(&mut chat, 40, 12), @r#"
    Type a message, or / for the commands.

    ✗ cannot write the file: the disk is
      full and so are all the others that
      were looked at, one after the other,
      so that nothing was written and what
      was there is as it was before;
      `/export` with another name may help
    ────────────────────────────────────────
    › █
    Enter send  F1 help  Ctrl-J new line
    tiny · cpu · reasoning medium · 0/1,000
    "#);
}

#[test]
fn a_download_says_how_fast_it_is_how_long_it_takes_and_what_stops_it() {
    let mut chat = Chat::loading();
    let at = |chat: &mut Chat, second: u64, done: u64| {
        chat.worker(WorkerEvent::Loading {
            what: "fetching model.safetensors".to_owned(),
            done,
            total: 1_000_000_000,
        });
        chat.wait(if second == 0 { 0 } else { 1000 });
    };
    for second in 0..4 {
        at(&mut chat, second, second * 10_000_000);
    }
    assert_snapshot!(resize(&mut chat, 80, 24), @r#"
    Type a message, or / for the commands.
    ~ 18
    | fetching model.safetensors 3 % of 1.0 GB  10.0 MB/s  97.0 s left
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Enter send  Esc stops  F1 help
    tiny · reasoning medium
    "#);
    for second in 4..10 {
        at(&mut chat, second, 30_000_000);
    }
    let screen = screen(&chat);
    assert!(
        screen.contains("3 % of 1.0 GB  waiting for the network"),
        "{screen}"
    );
}

#[test]
fn the_way_out_is_the_last_thing_that_a_footer_leaves_out() {
    let mut chat = sessions();
    for (width, footer) in [
        (80, "F2 rename  Del delete  Enter open  Esc close"),
        (40, "F2 rename  Enter open  Esc close"),
        (20, "Esc close"),
    ] {
        chat.send(Msg::Resize { width, height: 24 });
        assert_eq!(
            crate::tui::view::status::footer(&chat.app, width).to_string(),
            footer
        );
    }
}

#[test]
fn a_short_notice_stands_beside_what_goes_on() {
    let mut chat = answering();
    chat.ctrl('r');
    let screen = screen(&chat);
    assert!(
        screen.contains("! the answer is still coming: Esc stops it  | answering, 24 tokens"),
        "{screen}"
    );
}

#[test]
fn more_completions_than_fit_say_where_they_are() {
    let mut chat = Chat::ready();
    chat.write("/");
    assert_snapshot!(resize(&mut chat, 80, 24), @r#"
    Type a message, or / for the commands.
    ~ 11
    ▶ /help                         keys and commands
      /regen                        answer the last message again, on a new branch
      /edit [N]                     change an earlier message of yours and go on fr…
      /undo                         take the last exchange back
      /branch [N|next|prev|back]    go to another branch, or back to where you were
      /new                          start a new conversation; this one stays saved
      /clear                        forget what was said but keep the session; `/br…
      /system [TEXT|off]            show or set the system prompt
      1/28 ↑↓
    › /█
    Tab complete  Esc close
    tiny · cpu · reasoning medium · context 0/1,000
    "#);
    for _ in 0..9 {
        chat.press(KeyCode::Down);
    }
    assert_snapshot!(resize(&mut chat, 40, 12), @r#"
      /edit                change an earlie…
      /undo                take the last ex…
      /branch              go to another br…
      /new                 start a new conv…
      /clear               forget what was …
      /system              show or set the …
      /reasoning           how long to think
    ▶ /temperature         0 always takes t…
      10/28 ↑↓
    › /█
    Tab complete  Esc close
    tiny · cpu · reasoning medium · 0/1,000
    "#);
    assert_snapshot!(resize(&mut chat, 20, 5), @r#"
      /reasoning
    ▶ /temperature
      10/28 ↑↓
    › /█
    tiny · 0/1,000
    "#);
}

#[test]
fn the_first_page_of_the_help_has_what_is_needed_first() {
    let mut chat = Chat::ready();
    chat.press(KeyCode::F(1));
    assert_snapshot!(screen(&chat), @r#"
    ┌ Help ────────────────────────────────────────────────────────────────────────┐
    │ Sending and stopping                                                         │
    │ Enter                       send the message, choose, confirm                │
    │ Esc                         stop the answer, close, cancel                   │
    │ Ctrl-J                      a new line (also Alt-Enter, Shift-Enter)         │
    │ Ctrl-C                      stop; clear the draft; twice: quit               │
    │ Ctrl-D                      delete forward; quit where nothing is typed      │
    │                                                                              │
    │ Scrolling                                                                    │
    │ Wheel                       three lines up or down                           │
    │ Ctrl-T                      unfold or fold thinking and files                │
    │ PageUp                      a page up                                        │
    │ PageDown                    a page down                                      │
    │ Ctrl-Up                     a line up (also Shift-Up)                        │
    │ Ctrl-Down                   a line down (also Shift-Down)                    │
    │ Ctrl-Home                   to the beginning of the conversation             │
    │ Ctrl-End                    to its end                                       │
    │                                                                              │
    │ Going back                                                                   │
    │ Ctrl-R                      answer the last message again                    │
    │ Alt-E                       change an earlier message                        │
    │ Ctrl-N                      the next branch                                  │
    │ Ctrl-P                      the branch before                                │
    └ 1/5  Up, Down, PageUp, PageDown, wheel: scroll  Esc: close ──────────────────┘
    "#);
}

#[test]
fn the_help_is_read_page_by_page() {
    let mut chat = Chat::ready();
    chat.press(KeyCode::F(1));
    let bottom = |chat: &Chat| screen(chat).lines().last().unwrap_or_default().to_owned();
    let mut pages = Vec::new();
    for _ in 0..5 {
        let line = bottom(&chat);
        pages.push(
            line.trim_start_matches("└ ")
                .split("  ")
                .next()
                .unwrap()
                .to_owned(),
        );
        chat.press(KeyCode::PageDown);
    }
    assert_eq!(pages, ["1/5", "2/5", "3/5", "4/5", "5/5"]);
    chat.send(Msg::Scroll(-3));
    assert!(bottom(&chat).starts_with("└ 5/5"), "{}", bottom(&chat));
    assert!(screen(&chat).contains("Ctrl-K"));
}

#[test]
fn how_an_edit_is_left_is_said_on_every_screen() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").say("/edit 1");
    for (width, height, said) in [
        (
            80,
            24,
            "editing an earlier message: Enter starts a new branch, Esc cancels",
        ),
        (40, 12, "editing: Esc cancels"),
        (20, 5, "editing: Esc cancels"),
    ] {
        let screen = resize(&mut chat, width, height);
        assert!(screen.contains(said), "{screen}");
    }
}
