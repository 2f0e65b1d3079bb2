//! Files that are taken away from under a session.

use super::*;

fn lost(log: &mut Log) -> String {
    match log.append(&[Record::Head(None)]) {
        Err(Error::Lost { how, .. }) => how.to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_is_gone_or_another_is_noticed_before_anything_is_written() {
    let (home, store) = store();
    let open = || store.create(noon(), &[user(0, None, "a")]).unwrap();

    let mut log = open();
    fs::remove_file(log.path()).unwrap();
    assert_eq!(lost(&mut log), "deleted");

    let mut log = open();
    let text = fs::read_to_string(log.path()).unwrap();
    fs::write(log.path(), format!("{text}{{}}\n")).unwrap();
    assert_eq!(lost(&mut log), "changed");
    fs::write(log.path(), "").unwrap();
    assert_eq!(lost(&mut log), "changed");
    // As it was again.
    fs::write(log.path(), text).unwrap();
    log.append(&[Record::Head(None)]).unwrap();

    fs::remove_dir_all(home.path().join("state")).unwrap();
    assert_eq!(lost(&mut log), "deleted");
    // A file where its directory was.
    fs::write(home.path().join("state"), "").unwrap();
    assert_eq!(lost(&mut log), "deleted");
}

#[cfg(unix)]
#[test]
fn a_file_that_was_replaced_is_left_alone() {
    let (_home, store) = store();
    let mut log = store.create(noon(), &[user(0, None, "a")]).unwrap();
    let other = log.path().with_extension("new");
    fs::copy(log.path(), &other).unwrap();
    fs::rename(&other, log.path()).unwrap();
    let before = fs::read(log.path()).unwrap();
    assert_eq!(lost(&mut log), "replaced");
    assert_eq!(fs::read(log.path()).unwrap(), before);
}
