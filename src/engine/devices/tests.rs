use super::*;

fn device(api: Api, index: usize, kind: Kind, gigabytes: u64) -> Device {
    Device {
        api,
        index,
        name: format!("card {index}"),
        kind,
        driver: "driver 1.0".to_owned(),
        memory: Some(gigabytes * 1_000_000_000),
        largest_binding: u64::MAX,
        usable: Ok(()),
    }
}

fn unusable(device: Device) -> Device {
    Device {
        usable: Err("the fan is off; turn it on".to_owned()),
        ..device
    }
}

/// What a choice comes to, and what is said.
fn chosen(devices: &[Device], choice: &str, gigabytes: u64) -> (String, String) {
    match select(devices, &choice.parse().unwrap(), gigabytes * 1_000_000_000) {
        Ok((chosen, note)) => (chosen.choice().to_string(), note.unwrap_or_default()),
        Err(error) => ("refused".to_owned(), error.to_string()),
    }
}

fn silent(name: &str) -> (String, String) {
    (name.to_owned(), String::new())
}

#[test]
fn auto_takes_the_best_hardware_that_is_large_enough() {
    let lavapipe = device(Api::Vulkan, 0, Kind::Software, 64);
    let integrated = device(Api::Vulkan, 1, Kind::Integrated, 32);
    let small = device(Api::Vulkan, 2, Kind::Discrete, 8);
    let large = device(Api::Vulkan, 3, Kind::Discrete, 24);
    let same = device(Api::Cuda, 0, Kind::Discrete, 24);
    let all = [lavapipe, integrated, small, large, same];
    assert_eq!(chosen(&all, "auto", 14), silent("cuda:0"));
    assert_eq!(chosen(&all[..4], "auto", 14), silent("vulkan:3"));
    // A card with room before a larger processor part, that before the CPU.
    assert_eq!(chosen(&all[..3], "auto", 7), silent("vulkan:2"));
    assert_eq!(chosen(&all[..3], "auto", 14), silent("vulkan:1"));
    // A program on the CPU is no better than the CPU, and no news.
    assert_eq!(chosen(&all[..1], "auto", 1), silent("cpu"));
    assert_eq!(chosen(&[], "auto", 1), silent("cpu"));
    assert_eq!(chosen(&all, "cpu", 1), silent("cpu"));
}

#[test]
fn auto_says_why_it_takes_the_cpu_where_there_is_a_card() {
    let card = device(Api::Vulkan, 0, Kind::Discrete, 8);
    assert_eq!(
        chosen(std::slice::from_ref(&card), "auto", 14),
        (
            "cpu".to_owned(),
            "the model needs 14.0 GB and `vulkan:0` (card 0) has 8.0 GB; it runs on the CPU"
                .to_owned()
        )
    );
    let off = unusable(device(Api::Cuda, 1, Kind::Discrete, 80));
    assert_eq!(
        chosen(std::slice::from_ref(&off), "auto", 14),
        (
            "cpu".to_owned(),
            "`cuda:1` (card 1) cannot be used: the fan is off; turn it on; it runs on the CPU"
                .to_owned()
        )
    );
    // What is usable and too small is more to the point.
    assert!(
        chosen(&[off, card], "auto", 14)
            .1
            .starts_with("the model needs")
    );
}

#[test]
fn a_device_whose_memory_is_unknown_is_trusted() {
    let card = Device {
        memory: None,
        ..device(Api::Metal, 0, Kind::Integrated, 0)
    };
    assert_eq!(chosen(&[card], "auto", 500), silent("metal:0"));
}

#[test]
fn a_name_takes_what_it_says_or_is_refused() {
    let lavapipe = device(Api::Vulkan, 0, Kind::Software, 64);
    let integrated = device(Api::Vulkan, 1, Kind::Integrated, 32);
    let off = unusable(device(Api::Vulkan, 2, Kind::Discrete, 24));
    let all = [lavapipe, integrated, off];
    assert_eq!(chosen(&all, "vulkan", 14), silent("vulkan:1"));
    assert_eq!(chosen(&all[..1], "vulkan", 14), silent("vulkan:0"));
    assert_eq!(chosen(&all, "vulkan:0", 14), silent("vulkan:0"));
    let refused = |choice, need| {
        let (chosen, why) = chosen(&all, choice, need);
        assert_eq!(chosen, "refused");
        why
    };
    assert_eq!(
        refused("vulkan:2", 14),
        "`vulkan:2` (card 2) cannot be used: the fan is off; turn it on"
    );
    assert_eq!(
        refused("vulkan:1", 33),
        "the model needs 33.0 GB and `vulkan:1` (card 1) has 32.0 GB"
    );
    assert_eq!(
        refused("vulkan:7", 14),
        "there is no device `vulkan:7` here, expected `cpu`, `vulkan:0` (card 0), `vulkan:1` (card 1) or `vulkan:2` \
         (card 2)"
    );
    assert!(refused("cuda", 1).ends_with("it needs an NVIDIA card and its driver"));
}

/// The devices that the tests run on: lavapipe at least, where it is installed.
#[cfg(feature = "wgpu")]
fn software() -> Option<Device> {
    let mut devices = adapters::list().into_iter();
    devices.find(|device| device.kind == Kind::Software)
}

#[test]
#[cfg(feature = "wgpu")]
fn what_is_uploaded_in_pieces_is_what_is_there() {
    let Some(device) = software() else { return };
    let open = open_wgpu(&device, None).unwrap();
    assert_eq!(open.check(), Ok(()));
    let client = open.client();
    // More than two pieces, and an end that is none.
    let words: Vec<u32> = (0..18_000_001)
        .map(|i: u32| i.wrapping_mul(0x9e37_79b9))
        .collect();
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let handle = client.empty(bytes.len());
    open.upload_bytes(&handle, 0, bytes).unwrap();
    open.upload_bytes(&handle, 8, &bytes[..12]).unwrap();
    let read = client.read_one(handle).unwrap();
    let read: &[u32] = bytemuck::cast_slice(&read);
    assert_eq!(read[2..5], words[..3]);
    assert_eq!((&read[..2], &read[5..]), (&words[..2], &words[5..]));
    // The same device, not another one beside it.
    assert_eq!(open_wgpu(&device, None).unwrap().device, open.device);
}

#[test]
#[cfg(feature = "wgpu")]
fn a_device_that_is_gone_is_an_error() {
    let Some(device) = software() else { return };
    let gone = Device {
        index: 70,
        ..device
    };
    let Err(error) = open_wgpu(&gone, None) else {
        panic!("it is not there");
    };
    assert!(error.to_string().contains("`vulkan:70`"), "{error}");
}
