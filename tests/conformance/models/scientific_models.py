"""Entries of operator-learning, flow, probability, tabular, recurrent and audio packages."""

from __future__ import annotations

from models.entries import Built, entry, ids, randn


# ------------------------------------------------------------------------------------------ operators, flows, ODEs, SDEs
@entry("fourier_neural_operator", "neuralop", "operator learning")
def _():
    from neuralop.models import FNO

    return FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2), (randn(1, 1, 16, 16),)


@entry("neural_ode_rk4", "torchdiffeq", "ode")
def _():
    import torch
    from torchdiffeq import odeint

    net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    t = torch.linspace(0, 1, 6)
    return Built(net, (randn(4, 2),), {}, call=lambda y: odeint(lambda s, y: net(y), y, t, method="rk4"))


@entry("neural_ode_dopri5", "torchdiffeq", "ode", notes="adaptive steps: data-dependent loop")
def _():
    import torch
    from torchdiffeq import odeint

    net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    t = torch.linspace(0, 1, 3)
    return Built(net, (randn(4, 2),), {}, call=lambda y: odeint(lambda s, y: net(y), y, t, rtol=1e-3, atol=1e-4))


@entry("neural_sde_euler", "torchsde", "ode", train=False)
def _():
    import torch
    import torchsde

    class Sde(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.mu, self.sigma = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def f(self, t, y):
            return self.mu(y)

        def g(self, t, y):
            return self.sigma(y).sigmoid()

    sde, t = Sde(), torch.linspace(0, 1, 3)
    call = lambda y: torchsde.sdeint(sde, y, t, method="euler", dt=0.25, bm=torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=3))
    return Built(sde, (randn(4, 3),), {}, call=call)


@entry("neural_spline_flow", "zuko", "flow")
def _():
    import zuko

    flow = zuko.flows.NSF(features=3, context=2, transforms=2, hidden_features=(16, 16))
    return Built(flow, (randn(8, 3), randn(8, 2)), {}, call=lambda x, c: flow(c).log_prob(x), loss=lambda out: -out.mean())


@entry("masked_autoregressive_flow", "nflows", "flow")
def _():
    from nflows import distributions, flows, transforms

    t = transforms.CompositeTransform(
        [
            transforms.ReversePermutation(4),
            transforms.MaskedAffineAutoregressiveTransform(features=4, hidden_features=16),
            transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
                features=4, hidden_features=16, num_bins=4, tails="linear", tail_bound=3.0
            ),
        ]
    )
    flow = flows.Flow(t, distributions.StandardNormal([4]))
    return Built(flow, (randn(8, 4),), {}, call=lambda x: flow.log_prob(x), loss=lambda out: -out.mean())


@entry("real_nvp", "normflows", "flow")
def _():
    import normflows as nf

    base = nf.distributions.base.DiagGaussian(2)
    steps = []
    for _ in range(2):
        steps += [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 16, 2], init_zeros=True)), nf.flows.Permute(2, mode="swap")]
    flow = nf.NormalizingFlow(base, steps)
    return Built(flow, (randn(16, 2),), {}, call=lambda x: flow.forward_kld(x))


# ------------------------------------------------------------------------------------------ Gaussian processes, probability
@entry("exact_gp_marginal_likelihood", "gpytorch", "gaussian process")
def _():
    import gpytorch
    import torch

    class Gp(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 12)
    y = torch.sin(6 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    gp = Gp(x, y, likelihood).train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, gp)

    def call(x, y):
        gp.train()
        return -mll(gp(x), y)

    return Built(gp, (x, y), {}, call=call)


@entry("matern_kernel_matrix", "gpytorch", "gaussian process")
def _():
    import gpytorch

    k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=3))
    return Built(k, (randn(10, 3), randn(6, 3)), {}, call=lambda a, b: k(a, b).to_dense())


@entry("expected_improvement", "botorch", "gaussian process")
def _():
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = torch.rand(8, 2, dtype=torch.float64)
    gp = SingleTaskGP(x, torch.sin(4 * x).sum(1, keepdim=True))
    gp.eval()
    acquisition = LogExpectedImprovement(gp, best_f=0.5)
    return Built(None, (torch.rand(5, 1, 2, dtype=torch.float64),), {}, call=lambda x: acquisition(x))


@entry("elbo_gaussian_mixture", "pyro", "probability", train=False, notes="effect handlers")
def _():
    import pyro
    import pyro.distributions as dist
    import torch

    def model(data):
        loc = pyro.param("loc", lambda: torch.tensor(0.1))
        with pyro.plate("data", len(data)):
            pyro.sample("obs", dist.Normal(loc, 1.0), obs=data)

    def call(data):
        pyro.clear_param_store()
        return pyro.poutine.trace(model).get_trace(data).log_prob_sum()

    return Built(None, (randn(12),), {}, call=call)


@entry("linear_chain_crf", "torchcrf", "sequence labelling")
def _():
    import torch
    from torchcrf import CRF

    crf = CRF(5, batch_first=True)
    return Built(crf, (randn(2, 7, 5), torch.randint(0, 5, (2, 7))), {}, call=lambda e, t: -crf(e, t))


@entry("entmax_bisect", "entmax", "activation")
def _():
    import entmax

    return Built(
        None,
        (randn(4, 10),),
        {},
        call=lambda x: entmax.entmax15(x, dim=-1) + entmax.sparsemax(x, dim=-1) + entmax.entmax_bisect(x, alpha=1.3),
    )


# ------------------------------------------------------------------------------------------ tabular, recurrent, RL, audio codecs
@entry("tabnet", "pytorch_tabnet", "tabular")
def _():
    import torch
    from pytorch_tabnet.tab_network import TabNet

    return TabNet(input_dim=6, output_dim=3, n_d=8, n_a=8, n_steps=2, group_attention_matrix=torch.eye(6)), (randn(16, 6),)


@entry("ft_transformer", "rtdl_revisiting_models", "tabular")
def _():
    import torch
    from rtdl_revisiting_models import FTTransformer

    m = FTTransformer(
        n_cont_features=4,
        cat_cardinalities=[3, 5],
        d_out=1,
        n_blocks=2,
        d_block=32,
        attention_n_heads=4,
        attention_dropout=0.0,
        ffn_d_hidden_multiplier=2.0,
        ffn_dropout=0.0,
        residual_dropout=0.0,
    )
    return m, (randn(8, 4), torch.randint(0, 3, (8, 2)))


@entry("tab_transformer", "tab_transformer_pytorch", "tabular")
def _():
    import torch
    from tab_transformer_pytorch import TabTransformer

    return TabTransformer(
        categories=(4, 3, 6), num_continuous=4, dim=16, dim_out=1, depth=2, heads=2, dim_head=8, mlp_act=torch.nn.ReLU()
    ), (torch.randint(0, 3, (8, 3)), randn(8, 4))


@entry("liquid_time_constant", "ncps", "recurrent")
def _():
    from ncps.torch import LTC
    from ncps.wirings import AutoNCP

    return LTC(4, AutoNCP(12, 2), batch_first=True, ode_unfolds=2), (randn(2, 6, 4),)


@entry("closed_form_continuous", "ncps", "recurrent")
def _():
    from ncps.torch import CfC

    return CfC(4, 16, batch_first=True), (randn(2, 6, 4),)


@entry("temporal_conv_net", "pytorch_tcn", "recurrent")
def _():
    from pytorch_tcn import TCN

    return TCN(num_inputs=4, num_channels=[16, 16], kernel_size=3, dropout=0.0), (randn(2, 4, 20),)


@entry("lstm_language_model", "torch", "recurrent")
def _():
    import torch

    emb, rnn, out = torch.nn.Embedding(96, 16), torch.nn.LSTM(16, 24, 2, batch_first=True), torch.nn.Linear(24, 96)
    return Built(torch.nn.ModuleList([emb, rnn, out]), (ids(),), {}, call=lambda x: out(rnn(emb(x))[0]))


@entry("torch_transformer", "torch", "seq2seq")
def _():
    import torch

    m = torch.nn.Transformer(
        d_model=32, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=48, dropout=0.0, batch_first=True
    )
    return m, (randn(2, 10, 32), randn(2, 6, 32)), dict(tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(6))


@entry("mambapy", "mambapy", "ssm")
def _():
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=16, n_layers=2, d_state=8)), (randn(2, 16, 16),)


@entry("s5", "s5", "ssm")
def _():
    import s5

    return s5.S5(16, 16), (randn(2, 16, 16),)


@entry("ppo_actor_critic", "stable_baselines3", "reinforcement learning", notes="samples an action")
def _():
    import gymnasium as gym
    import numpy as np
    from stable_baselines3.common.policies import ActorCriticPolicy

    p = ActorCriticPolicy(gym.spaces.Box(-1, 1, (6,), np.float32), gym.spaces.Discrete(4), lambda _: 1e-3)
    return Built(p, (randn(8, 6),), {}, call=lambda o: p(o))


@entry("ppo_evaluate_actions", "stable_baselines3", "reinforcement learning")
def _():
    import gymnasium as gym
    import numpy as np
    import torch
    from stable_baselines3.common.policies import ActorCriticPolicy

    p = ActorCriticPolicy(gym.spaces.Box(-1, 1, (6,), np.float32), gym.spaces.Box(-1, 1, (2,), np.float32), lambda _: 1e-3)

    def call(obs, actions, advantage, old):
        values, log_prob, entropy = p.evaluate_actions(obs, actions)
        ratio = torch.exp(log_prob - old)
        return -torch.min(advantage * ratio, advantage * ratio.clamp(0.8, 1.2)).mean() + 0.5 * values.pow(2).mean() - 0.01 * entropy.mean()

    return Built(p, (randn(8, 6), randn(8, 2), randn(8), randn(8)), {}, call=call)


@entry("sac_actor", "stable_baselines3", "reinforcement learning", train=False, notes="samples an action")
def _():
    import gymnasium as gym
    import numpy as np
    from stable_baselines3.sac.policies import SACPolicy

    p = SACPolicy(gym.spaces.Box(-1, 1, (6,), np.float32), gym.spaces.Box(-1, 1, (2,), np.float32), lambda _: 1e-3, net_arch=[32, 32])
    return Built(p.actor, (randn(8, 6),), {}, call=lambda o: p.actor.action_log_prob(o))


@entry("tensordict_module", "tensordict", "reinforcement learning")
def _():
    import torch
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    m = TensorDictSequential(
        TensorDictModule(torch.nn.Linear(4, 8), ["obs"], ["hidden"]), TensorDictModule(torch.nn.Linear(8, 2), ["hidden"], ["action"])
    )
    return Built(m, (randn(6, 4),), {}, call=lambda o: m(TensorDict({"obs": o}, [6]))["action"])


@entry("encodec", "encodec", "audio", train=False)
def _():
    import torch
    from encodec.modules import SEANetDecoder, SEANetEncoder

    enc, dec = (
        SEANetEncoder(channels=1, dimension=16, n_filters=4, ratios=[4, 2], lstm=1),
        SEANetDecoder(channels=1, dimension=16, n_filters=4, ratios=[4, 2], lstm=1),
    )
    return torch.nn.Sequential(enc, dec), (randn(1, 1, 256),)


@entry("snac_codec", "snac", "audio", train=False)
def _():
    import snac

    return snac.SNAC(
        sampling_rate=8000,
        encoder_dim=8,
        encoder_rates=[2, 4],
        decoder_dim=32,
        decoder_rates=[4, 2],
        attn_window_size=None,
        codebook_size=16,
        codebook_dim=4,
        vq_strides=[2, 1],
        noise=False,
    ), (randn(1, 1, 256),)


@entry("metric_functions", "torchmetrics", "metrics", train=False)
def _():
    import torch
    import torchmetrics.functional as f

    def call(p, t):
        return (
            f.classification.multiclass_f1_score(p, t, num_classes=4),
            f.classification.multiclass_auroc(p, t, num_classes=4, thresholds=10),
            f.pearson_corrcoef(p[:, 0], p[:, 1]),
        )

    return Built(None, (torch.softmax(randn(32, 4), -1), torch.randint(0, 4, (32,))), {}, call=call)


@entry("metric_module_state", "torchmetrics", "metrics", train=False, notes="accumulates state over calls")
def _():
    import torchmetrics

    m = torchmetrics.MeanSquaredError()
    return Built(m, (randn(16), randn(16)), {}, call=lambda p, t: m(p, t))
