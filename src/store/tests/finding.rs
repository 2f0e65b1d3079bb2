//! Finding sessions by name and by what was said.

use super::*;
use crate::session::Cancel;

fn minutes_ago(store: &Store, minutes: u64, records: &[Record]) -> String {
    let (id, path) = saved(store, records);
    let file = options().open(&path).unwrap();
    file.set_modified(noon() - Duration::from_mins(minutes))
        .unwrap();
    id
}

#[test]
fn a_session_is_found_by_id_and_title_and_the_beginning_of_either() {
    let (_home, store) = store();
    let rain = minutes_ago(&store, 5, &[title("Rain in\nOslo")]);
    let year = minutes_ago(&store, 90, &[title("2025")]);
    let snow = minutes_ago(&store, 2, &[user(0, None, "Snow in March")]);
    let find = |name: &str| store.find(name, noon()).map_err(|error| error.to_string());
    assert_eq!(find(&rain), Ok(rain.clone()));
    assert_eq!(find("20250628-120005-2"), Ok(year.clone()));
    // The whole of a title or an id comes before a beginning.
    assert_eq!(find("2025"), Ok(year));
    assert_eq!(find("rain in oslo"), Ok(rain.clone()));
    assert_eq!(find("RAIN"), Ok(rain));
    assert_eq!(find("snow"), Ok(snow));
    insta::assert_snapshot!(find("202506").unwrap_err(), @r"
    `202506` may be any of 3 sessions:
      20250628-120005-3  2 min ago  Snow in March
      20250628-120005    5 min ago  Rain in Oslo
      20250628-120005-2  1 h ago    2025
    ");
}

#[test]
fn what_is_not_found_is_told_with_the_nearest() {
    let (_home, store) = store();
    minutes_ago(&store, 5, &[title("Trip to Oslo")]);
    minutes_ago(&store, 90, &[title("Rust lifetimes")]);
    let miss = |name: &str| store.find(name, noon()).unwrap_err().to_string();
    insta::assert_snapshot!(miss("Trip to Olso?"), @r"
    there is no session `Trip to Olso?`: expected an id, a title, or how one begins
    the nearest is:
      20250628-120005  5 min ago  Trip to Oslo
    ");
    for nothing in ["snow", "", " "] {
        assert_eq!(
            miss(nothing),
            format!("there is no session `{nothing}`: expected an id, a title, or how one begins")
        );
    }
}

#[test]
fn an_error_lists_ten_sessions_at_most() {
    let (_home, store) = store();
    for _ in 0..12 {
        minutes_ago(&store, 5, &[title("Rain")]);
    }
    let error = store.find("rain", noon()).unwrap_err().to_string();
    assert!(
        error.starts_with("`rain` may be any of 12 sessions:"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 12, "{error}");
    assert!(error.ends_with("\n  and 2 more"), "{error}");
}

#[test]
fn an_id_is_meant_by_its_beginning_and_the_words_as_typed_are_known() {
    let (_home, store) = store();
    let apart = minutes_ago(
        &store,
        1,
        &[
            user(0, None, "boots and red\nshoes"),
            user(1, Some(0), "12"),
        ],
    );
    let together = minutes_ago(
        &store,
        2,
        &[user(0, None, "Hi"), user(1, Some(0), "my red boots")],
    );
    let search = |text: &str| {
        let found = store.search(text, &Cancel::new()).unwrap().unwrap();
        let hits = found.into_iter().map(|hit| (hit.id, hit.has_phrase));
        hits.collect::<Vec<_>>()
    };
    assert_eq!(
        search("Red  boots"),
        [(apart.clone(), false), (together, true)]
    );
    // Not those of all sessions in which it is somewhere in the time.
    assert_eq!(search("12"), [(apart.clone(), true)]);
    assert_eq!(search("20250628").len(), 2);
    assert_eq!(search("red shoes"), [(apart.clone(), true)]);
    assert_eq!(search("shoes boots"), [(apart, false)]);
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_told_as_one() {
    let (home, store) = store();
    minutes_ago(&store, 5, &[title("Rain")]);
    let gone = home.path().join("gone.jsonl");
    let link = store.directory().join("linked.jsonl");
    std::os::unix::fs::symlink(&gone, &link).unwrap();
    let said = format!(
        "`{}` is a link to `{}`, which is not there",
        link.display(),
        gone.display()
    );
    let listed = store.list(noon()).unwrap();
    let listed = listed.iter().find(|summary| summary.id == "linked");
    assert_eq!(listed.unwrap().problem.as_deref(), Some(&*said));
    assert_eq!(store.find("linked", noon()).unwrap(), "linked");
    assert_eq!(store.load("linked").unwrap_err().to_string(), said);
}

#[test]
fn damage_in_an_answer_far_down_is_marked_in_the_list() {
    let (_home, store) = store();
    let (id, path) = saved(
        &store,
        &[user(0, None, "Hi"), answer(1, 0), user(2, Some(1), "More")],
    );
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"messages\":[", "\"messages\":[[")).unwrap();
    let listed = store.list(noon()).unwrap();
    assert_eq!(listed[0].id, id);
    assert!(
        listed[0]
            .problem
            .as_ref()
            .unwrap()
            .contains("damaged in line 3")
    );
}

#[test]
fn messages_are_searched_on_every_branch_and_thinking_is_not() {
    let (_home, store) = store();
    let both = minutes_ago(
        &store,
        5,
        &[
            user(0, None, "Weather?"),
            answer(1, 0),
            user(2, None, "UMBRELLAS\nand boots"),
        ],
    );
    let title = minutes_ago(&store, 6, &[title("Umbrellas"), user(0, None, "Hi")]);
    let (_, damaged) = saved(&store, &[user(0, None, "umbrellas")]);
    fs::write(&damaged, "{\"gptoss_session\":2}\n").unwrap();
    let search = |text: &str| {
        let found = store.search(text, &Cancel::new()).unwrap().unwrap();
        let hits = found.into_iter().map(|hit| (hit.id, hit.excerpt));
        hits.collect::<Vec<_>>()
    };
    let said = |text: &str| Some(text.to_owned());
    assert_eq!(
        search("umbrellas"),
        [(both.clone(), said("UMBRELLAS and boots")), (title, None)]
    );
    assert_eq!(
        search("boots Rains"),
        [(both.clone(), said("UMBRELLAS and boots"))]
    );
    assert_eq!(search("weather ☔"), [(both, said("It rains. ☔"))]);
    assert_eq!(search("well"), [], "that was thought");
    assert_eq!(search("boots snow"), []);
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(store.search("rains", &cancel).unwrap(), None);
}
