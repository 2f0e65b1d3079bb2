//! What a GPU leaves to the CPU: the experts of layers that did not fit.

use burn::tensor::Tensor;
use burn_cubecl::CubeRuntime;

use super::{Burn, Cube, buffer, taken};
use crate::engine::Error;
use crate::engine::backend::{Engine, Routing};
use crate::engine::candle::{self, CpuExperts};

impl<R: CubeRuntime> Cube<R> {
    /// [`Engine::add_experts`] on the CPU, for experts that stay there: the activations cross over, which is little
    /// against the weights.
    pub(super) fn on_host(
        &self,
        residual: Tensor<Burn<R>, 2>,
        x: Tensor<Burn<R>, 2>,
        routing: Routing<Burn<R>>,
        experts: &CpuExperts,
        limit: f32,
    ) -> Tensor<Burn<R>, 2> {
        let (shape, [n, top_k]) = (residual.dims(), routing.weights.dims());
        let buffers = vec![
            taken(residual.clone()),
            taken(x),
            taken(routing.weights),
            buffer(routing.ids.into_primitive()),
        ];
        let Some(cpu) = &self.host else {
            unreachable!("experts stay on the host where it computes");
        };
        let read = match self.gpu.read_all(buffers) {
            Ok(read) => read,
            Err(error) => {
                self.upload.failed(Error::Device(error));
                return residual;
            }
        };
        let [residual, x, weights, ids] = read.as_slice() else {
            unreachable!("as many are read as were asked for");
        };
        let values = |words: &[u32]| bytemuck::cast_slice::<u32, f32>(words).to_vec();
        let routing = Routing {
            ids: candle::wrap_ids(ids.iter().map(|id| i64::from(*id)).collect(), [n, top_k]),
            weights: candle::wrap(values(weights), [n, top_k]),
        };
        let (residual, x) = (values(residual), values(x));
        let (residual, x) = (candle::wrap(residual, shape), candle::wrap(x, shape));
        let y = cpu.run(|| cpu.add_experts(residual, x, routing, experts, limit));
        self.wrap(self.gpu.upload(&candle::read(y)), shape)
    }
}
