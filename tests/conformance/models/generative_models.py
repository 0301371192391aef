"""Entries of diffusion, graph-network, attention and convolution packages."""

from __future__ import annotations

from models.entries import Built, entry, ids, randn


# ------------------------------------------------------------------------------------------ diffusion
@entry("unet2d", "diffusers", "diffusion")
def _():
    import diffusers
    import torch

    m = diffusers.UNet2DModel(
        sample_size=16,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )
    return m, (randn(1, 3, 16, 16), torch.tensor(10))


@entry("unet2d_condition", "diffusers", "diffusion")
def _():
    import diffusers

    m = diffusers.UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
    return m, (randn(1, 4, 16, 16), 10, randn(1, 6, 16))


@entry("autoencoder_kl", "diffusers", "diffusion")
def _():
    import diffusers

    return diffusers.AutoencoderKL(
        block_out_channels=(16, 32),
        norm_num_groups=8,
        layers_per_block=1,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
    ), (randn(1, 3, 16, 16),)


@entry("dit", "diffusers", "diffusion")
def _():
    import diffusers
    import torch

    m = diffusers.DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=2,
        sample_size=8,
        patch_size=2,
        num_embeds_ada_norm=10,
        norm_num_groups=4,
    )
    return m, (randn(2, 4, 8, 8),), dict(timestep=torch.tensor([1, 5]), class_labels=torch.tensor([0, 3]))


@entry("flux_transformer", "diffusers", "diffusion")
def _():
    import diffusers
    import torch

    m = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=8,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(4, 4, 8),
    )
    return (
        m,
        (),
        dict(
            hidden_states=randn(1, 16, 8),
            encoder_hidden_states=randn(1, 6, 16),
            pooled_projections=randn(1, 16),
            timestep=torch.tensor([0.5]),
            img_ids=torch.zeros(16, 3),
            txt_ids=torch.zeros(6, 3),
        ),
    )


@entry("ddim_sampling_loop", "diffusers", "diffusion", train=False, notes="scheduler objects inside a 4-step loop")
def _():
    import diffusers

    m = diffusers.UNet2DModel(
        sample_size=8,
        block_out_channels=(16,),
        norm_num_groups=8,
        layers_per_block=1,
        down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
        add_attention=False,
    )
    scheduler = diffusers.DDIMScheduler(num_train_timesteps=100)
    scheduler.set_timesteps(4)

    def sample(x):
        for t in scheduler.timesteps:
            x = scheduler.step(m(x, t).sample, t, x).prev_sample
        return x

    return Built(m, (randn(1, 3, 8, 8),), {}, call=sample)


# ------------------------------------------------------------------------------------------ graph networks
def _graph(nodes=12, edges=40, features=8):
    import torch

    return randn(nodes, features), torch.randint(0, nodes, (2, edges))


def gnn(name, make, **flags):
    @entry(name, "torch_geometric", "graph", **flags)
    def _():
        import torch_geometric.nn as g

        return make(g), _graph()


gnn("gcn", lambda g: g.GCN(8, 16, 2, 4))
gnn("graphsage", lambda g: g.GraphSAGE(8, 16, 2, 4))
gnn("gat", lambda g: g.GAT(8, 16, 2, 4, heads=2))
gnn("gin", lambda g: g.GIN(8, 16, 2, 4, norm="batch_norm"))
gnn(
    "pna",
    lambda g: g.PNA(
        8, 16, 2, 4, aggregators=["mean", "max", "std"], scalers=["identity", "amplification"], deg=__import__("torch").tensor([0, 2, 4, 6])
    ),
)
gnn("graph_unet", lambda g: g.GraphUNet(8, 16, 4, depth=2), notes="top-k pooling: data-dependent shapes")
gnn("graph_transformer", lambda g: g.TransformerConv(8, 16, heads=2))


@entry("schnet", "torch_geometric", "graph")
def _():
    import torch
    import torch_geometric.nn as g

    m = g.SchNet(
        hidden_channels=16,
        num_filters=16,
        num_interactions=2,
        num_gaussians=8,
        cutoff=5.0,
        interaction_graph=lambda pos, batch: _radius(pos, batch),
    )
    return m, (torch.randint(1, 9, (10,)), randn(10, 3), torch.tensor([0] * 5 + [1] * 5))


def _radius(pos, batch):
    import torch

    d = torch.cdist(pos, pos)
    near = (d < 5.0) & (batch[:, None] == batch[None]) & ~torch.eye(len(pos), dtype=torch.bool)
    edge = near.nonzero().t().contiguous()
    return edge, d[edge[0], edge[1]]


@entry("rgcn_global_pool", "torch_geometric", "graph")
def _():
    import torch
    import torch_geometric.nn as g

    conv, lin = g.RGCNConv(8, 16, num_relations=3), torch.nn.Linear(16, 2)
    m = torch.nn.ModuleList([conv, lin])
    x, e = _graph()
    return Built(
        m,
        (x, e, torch.randint(0, 3, (40,)), torch.tensor([0] * 6 + [1] * 6)),
        {},
        call=lambda x, e, r, b: lin(g.global_mean_pool(conv(x, e, r).relu(), b)),
    )


@entry("egnn", "egnn_pytorch", "graph")
def _():
    import egnn_pytorch

    return egnn_pytorch.EGNN(dim=16, m_dim=8, num_nearest_neighbors=4), (randn(1, 8, 16), randn(1, 8, 3))


@entry("e3nn_gated_tensor_product", "e3nn", "graph")
def _():
    import torch
    from e3nn import nn as enn
    from e3nn import o3

    a, b = o3.Irreps("4x0e + 2x1o"), o3.Irreps("1x0e + 1x1o")
    tp = o3.FullyConnectedTensorProduct(a, b, o3.Irreps("4x0e + 2x0e + 2x1o"))
    gate = enn.Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
    m = torch.nn.ModuleList([tp, gate])
    return Built(m, (randn(6, a.dim), randn(6, 3)), {}, call=lambda x, p: gate(tp(x, o3.spherical_harmonics(b, p, normalize=True))))


@entry("ani_potential", "torchani", "graph")
def _():
    import torch
    import torchani

    return torchani.AEVComputer.like_2x(num_species=4), (torch.randint(0, 4, (2, 5)), randn(2, 5, 3))


# ------------------------------------------------------------------------------------------ attention variants in einops style
@entry("x_transformer_decoder", "x_transformers", "decoder")
def _():
    from x_transformers import Decoder, TransformerWrapper

    return TransformerWrapper(
        num_tokens=96, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True)
    ), (ids(),)


@entry("x_transformer_autoregressive", "x_transformers", "decoder")
def _():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    return AutoregressiveWrapper(
        TransformerWrapper(num_tokens=96, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8))
    ), (ids(2, 17),)


@entry("vit_pytorch_simple", "vit_pytorch", "vision", needs=("torchvision",))
def _():
    from vit_pytorch import SimpleViT

    return SimpleViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=4, mlp_dim=48, dim_head=8), (randn(2, 3, 32, 32),)


@entry("vit_pytorch_compact_conv", "vit_pytorch", "vision", needs=("torchvision",), notes="sequence pooling")
def _():
    from vit_pytorch.cct import CCT

    return CCT(
        img_size=32,
        embedding_dim=32,
        n_conv_layers=1,
        kernel_size=7,
        stride=2,
        padding=3,
        pooling_kernel_size=3,
        pooling_stride=2,
        pooling_padding=1,
        num_layers=2,
        num_heads=4,
        mlp_ratio=2.0,
        num_classes=10,
        positional_embedding="learnable",
    ), (randn(2, 3, 32, 32),)


@entry("perceiver_pytorch", "perceiver_pytorch", "vision")
def _():
    from perceiver_pytorch import Perceiver

    return Perceiver(
        input_channels=3,
        input_axis=2,
        num_freq_bands=3,
        max_freq=10.0,
        depth=2,
        num_latents=8,
        latent_dim=16,
        cross_heads=1,
        latent_heads=2,
        cross_dim_head=8,
        latent_dim_head=8,
        num_classes=5,
        weight_tie_layers=True,
    ), (randn(1, 16, 16, 3),)


@entry("performer_lm", "performer_pytorch", "decoder", notes="random feature attention")
def _():
    from performer_pytorch import PerformerLM

    return PerformerLM(num_tokens=96, max_seq_len=32, dim=32, depth=1, heads=4, dim_head=8, causal=False), (ids(2, 32),)


@entry("linear_attention_lm", "linear_attention_transformer", "decoder")
def _():
    from linear_attention_transformer import LinearAttentionTransformerLM

    return LinearAttentionTransformerLM(num_tokens=96, dim=32, heads=4, depth=1, max_seq_len=32, causal=False), (ids(2, 32),)


@entry("reformer_pytorch", "reformer_pytorch", "decoder", train=False, notes="reversible layers, hash attention draws random numbers")
def _():
    from reformer_pytorch import ReformerLM

    return ReformerLM(num_tokens=96, dim=32, depth=1, heads=4, max_seq_len=32, bucket_size=8, n_hashes=2, causal=True), (ids(1, 32),)


@entry("nystromformer", "nystrom_attention", "encoder")
def _():
    from nystrom_attention import Nystromformer

    return Nystromformer(dim=32, dim_head=8, heads=4, depth=1, num_landmarks=8, pinv_iterations=3), (randn(1, 20, 32),)


@entry("gmlp", "g_mlp_pytorch", "encoder")
def _():
    from g_mlp_pytorch import gMLP

    return gMLP(num_tokens=96, dim=32, depth=2, seq_len=16), (ids(),)


@entry("mlp_mixer", "mlp_mixer_pytorch", "vision")
def _():
    from mlp_mixer_pytorch import MLPMixer

    return MLPMixer(image_size=32, channels=3, patch_size=8, dim=32, depth=2, num_classes=10), (randn(2, 3, 32, 32),)


@entry("conformer_block", "conformer", "audio")
def _():
    from conformer import ConformerBlock

    return ConformerBlock(dim=32, dim_head=8, heads=4, ff_mult=2, conv_kernel_size=7), (randn(2, 20, 32),)


@entry("local_attention_lm", "local_attention", "decoder")
def _():
    from local_attention import LocalTransformer

    return LocalTransformer(num_tokens=96, dim=32, depth=1, max_seq_len=32, causal=True, local_attn_window_size=8, heads=4, dim_head=8), (
        ids(1, 32),
    )


@entry("vector_quantizer", "vector_quantize_pytorch", "quantisation", notes="training updates a codebook in place")
def _():
    from vector_quantize_pytorch import VectorQuantize

    return VectorQuantize(dim=16, codebook_size=32, decay=0.8), (randn(2, 24, 16),)


@entry("residual_fsq", "vector_quantize_pytorch", "quantisation")
def _():
    from vector_quantize_pytorch import ResidualFSQ

    return ResidualFSQ(dim=16, levels=[5, 5, 5], num_quantizers=3), (randn(2, 24, 16),)


@entry("siren", "siren_pytorch", "implicit field")
def _():
    from siren_pytorch import SirenNet

    return SirenNet(dim_in=2, dim_hidden=32, dim_out=3, num_layers=3), (randn(64, 2),)


@entry(
    "lucid_unet_diffusion_loss", "denoising_diffusion_pytorch", "diffusion", needs=("torchvision",), notes="loss draws noise and time steps"
)
def _():
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    return GaussianDiffusion(Unet(dim=16, dim_mults=(1, 2), flash_attn=False), image_size=16, timesteps=20), (
        randn(1, 3, 16, 16).sigmoid(),
    )


# ------------------------------------------------------------------------------------------ convolution packages
@entry("efficientnet_pytorch", "efficientnet_pytorch", "cnn")
def _():
    from efficientnet_pytorch import EfficientNet

    return EfficientNet.from_name("efficientnet-b0", image_size=64, num_classes=10, drop_connect_rate=0.0, dropout_rate=0.0), (
        randn(2, 3, 64, 64),
    )


@entry("pytorchcv_resnet", "pytorchcv", "cnn")
def _():
    from pytorchcv.models.resnet import ResNet

    return ResNet(
        channels=[[16], [32, 32]], init_block_channels=16, bottleneck=False, conv1_stride=True, in_size=(56, 56), num_classes=10
    ), (randn(2, 3, 56, 56),)


@entry("pytorchcv_shufflenet", "pytorchcv", "cnn")
def _():
    from pytorchcv.models.shufflenetv2 import ShuffleNetV2

    return ShuffleNetV2(
        channels=[[16, 16], [32, 32]], init_block_channels=8, final_block_channels=32, in_size=(112, 112), num_classes=10
    ), (randn(2, 3, 112, 112),)


@entry("kornia_augment_and_edges", "kornia", "image processing")
def _():
    import kornia as k

    call = lambda x: k.filters.sobel(k.filters.gaussian_blur2d(k.color.rgb_to_hsv(x.abs()), (5, 5), (1.0, 1.0)))
    return Built(None, (randn(2, 3, 32, 32),), {}, call=call)


@entry("kornia_warp_affine", "kornia", "image processing")
def _():
    import kornia as k
    import torch

    call = lambda x, a: k.geometry.transform.rotate(k.geometry.transform.resize(x, (24, 24)), a)
    return Built(None, (randn(2, 3, 32, 32), torch.tensor([10.0, 30.0])), {}, call=call)


@entry("kornia_harris_corners", "kornia", "image processing")
def _():
    import kornia as k

    return Built(None, (randn(1, 1, 32, 32).sigmoid(),), {}, call=lambda x: k.feature.harris_response(x))
