//! MXFP4 as the reference decodes it, and the four published layouts of one model.

use std::fs;
use std::path::{Path, PathBuf};

use gptoss::checkpoint::{
    Bf16, Checkpoint, ExpertWeight, Experts, Layer, Layout, Linear, WeightFile, bf16_to_f32, mxfp4,
};
use safetensors::SafeTensors;

fn tests_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn fixture(name: &str) -> Checkpoint {
    Checkpoint::open(&tests_directory().join("fixtures").join(name)).unwrap()
}

struct Goldens(Vec<u8>);

impl Goldens {
    fn mxfp4() -> Self {
        Self(fs::read(tests_directory().join("goldens/unit/mxfp4.safetensors")).unwrap())
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        tensors.tensor(name).unwrap().data().to_vec()
    }

    /// The bits of a tensor of f32, so that both zeros are told apart.
    fn bits(&self, name: &str) -> Vec<u32> {
        let bytes = self.bytes(name);
        let (words, _) = bytes.as_chunks();
        words.iter().copied().map(u32::from_le_bytes).collect()
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn mxfp4_decodes_to_the_reference_bit_for_bit() {
    let goldens = Goldens::mxfp4();
    for prefix in ["", "extreme_", "quant_"] {
        let blocks = goldens.bytes(&format!("{prefix}blocks"));
        let scales = goldens.bytes(&format!("{prefix}scales"));
        let values = goldens.bits(&format!("{prefix}values"));
        assert_eq!(bits(&mxfp4::decode(&blocks, &scales)), values, "{prefix}");
    }
}

#[test]
fn mxfp4_with_swapped_nibbles_is_not_the_reference() {
    let goldens = Goldens::mxfp4();
    let mut blocks = goldens.bytes("blocks");
    for byte in &mut blocks {
        *byte = byte.rotate_left(4);
    }
    let swapped = bits(&mxfp4::decode(&blocks, &goldens.bytes("scales")));
    let values = goldens.bits("values");
    let different = swapped.iter().zip(&values).filter(|(a, b)| a != b).count();
    assert!(
        different > values.len() / 2,
        "{different} of {}",
        values.len()
    );
}

fn assert_same(left: &Bf16, right: &Bf16, what: &str) {
    assert_eq!(left.shape, right.shape, "{what}");
    assert!(*left.bytes == *right.bytes, "{what}");
    let elements: usize = left.shape.iter().product();
    assert_eq!(left.bytes.len(), 2 * elements, "{what}");
}

/// Every dense tensor of the layer with its name, so that a mix-up of two of them shows.
fn dense(layer: &Layer) -> Vec<(&'static str, &Bf16)> {
    fn both<'a>(names: [&'static str; 2], linear: &'a Linear) -> [(&'static str, &'a Bf16); 2] {
        [(names[0], &linear.weight), (names[1], &linear.bias)]
    }
    let mut tensors = vec![
        ("attention norm", &layer.attention_norm),
        ("sinks", &layer.sinks),
        ("mlp norm", &layer.mlp_norm),
        ("gate_up bias", &layer.gate_up.bias),
        ("down bias", &layer.down.bias),
    ];
    tensors.extend(both(["q", "q bias"], &layer.q));
    tensors.extend(both(["k", "k bias"], &layer.k));
    tensors.extend(both(["v", "v bias"], &layer.v));
    tensors.extend(both(["out", "out bias"], &layer.out));
    tensors.extend(both(["router", "router bias"], &layer.router));
    tensors
}

/// One expert as f32 `[out, in]`, from either storage form.
fn expert(experts: &Experts, index: usize) -> Vec<f32> {
    let size = experts.rows * experts.cols;
    match &experts.weight {
        ExpertWeight::Mxfp4 { blocks, scales } => mxfp4::decode(
            &blocks[index * size / 2..(index + 1) * size / 2],
            &scales[index * size / 32..(index + 1) * size / 32],
        ),
        ExpertWeight::Bf16(weight) => {
            let bytes = &weight.bytes[2 * index * size..2 * (index + 1) * size];
            let input_major: Vec<f32> = bf16_to_f32(bytes).collect();
            let transposed =
                |i: usize| input_major[i % experts.cols * experts.rows + i / experts.cols];
            (0..size).map(transposed).collect()
        }
    }
}

#[test]
fn all_layouts_give_the_same_weights() {
    let tiny = Checkpoint::tiny();
    assert_eq!(tiny.layout, Layout::HuggingFace);
    for (name, layout) in [
        ("tiny-sharded", Layout::HuggingFace),
        ("tiny-bf16", Layout::HuggingFaceBf16),
        ("tiny-original", Layout::Original),
    ] {
        let other = fixture(name);
        assert_eq!(other.layout, layout, "{name}");
        assert_eq!(other.config, tiny.config, "{name}");
        let (left, right) = (&tiny.weights, &other.weights);
        assert_same(&left.embedding, &right.embedding, name);
        assert_same(&left.unembedding, &right.unembedding, name);
        assert_same(&left.norm, &right.norm, name);
        assert_eq!(left.layers.len(), right.layers.len());
        for (index, (left, right)) in left.layers.iter().zip(&right.layers).enumerate() {
            for ((role, left), (_, right)) in dense(left).into_iter().zip(dense(right)) {
                assert_same(left, right, &format!("{name}, layer {index}, {role}"));
            }
            for (left, right) in [(&left.gate_up, &right.gate_up), (&left.down, &right.down)] {
                let shape = |experts: &Experts| (experts.experts, experts.rows, experts.cols);
                assert_eq!(shape(left), shape(right));
                for i in 0..left.experts {
                    assert!(
                        expert(left, i) == expert(right, i),
                        "{name}, layer {index}, expert {i}"
                    );
                }
            }
        }
    }
}

/// No two roles of the tiny model hold the same bytes, or the test above could not tell them apart.
#[test]
fn the_roles_of_the_tiny_model_differ() {
    for layer in &Checkpoint::tiny().weights.layers {
        let tensors = dense(layer);
        for (i, (left_name, left)) in tensors.iter().enumerate() {
            for (right_name, right) in &tensors[i + 1..] {
                assert!(*left.bytes != *right.bytes, "{left_name} and {right_name}");
            }
        }
    }
}

#[test]
fn the_built_in_model_is_the_directory_it_was_made_from() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny");
    let opened = Checkpoint::open(&directory).unwrap();
    let tiny = Checkpoint::tiny();
    assert_eq!(tiny.source, "tiny (built in)");
    assert_eq!(opened.source, directory.display().to_string());
    assert_eq!(tiny.config, opened.config);
    assert_eq!(tiny.eos_token_ids, [2884, 2881, 2894]);
    assert_eq!(opened.eos_token_ids, tiny.eos_token_ids);
    let text = fs::read(directory.join("tokenizer.json")).unwrap();
    let json =
        |checkpoint: &Checkpoint| checkpoint.tokenizer.as_ref().map(|file| file.json.clone());
    assert_eq!(json(&tiny).as_deref(), Some(&text[..]));
    assert_eq!(json(&opened), json(&tiny));
}

#[test]
fn original_takes_its_end_and_tokenizer_from_the_files_beside_it_only() {
    let original = fixture("tiny-original");
    assert_eq!(original.eos_token_ids, Vec::<u32>::new());
    assert_eq!(original.tokenizer, None);
}

#[test]
fn the_summary_of_the_shards_adds_up_to_their_files() {
    let directory = tests_directory().join("fixtures/tiny-sharded");
    let summary = fixture("tiny-sharded").summary();
    let file = |name: &str, bytes| WeightFile {
        path: directory.join(name),
        bytes,
    };
    assert_eq!(
        summary.files,
        [
            file("model-00000-of-00002.safetensors", 2_261_216),
            file("model-00001-of-00002.safetensors", 1_818_400),
            file("model-00002-of-00002.safetensors", 1_918_304),
        ]
    );
    // `metadata.total_size` of the index.
    assert_eq!(summary.weight_bytes(), 5_985_552);
    assert_eq!(summary.tensors, 117);
}
