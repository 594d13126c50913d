"""Networks that generate: adversarial, variational, by diffusion."""

import itertools

import torch
from torch.nn import functional as F

from zoo.common import model, training


@model("dcgan")
def dcgan():
    """Two optimizers that take turns in every step; the iteration ends with the discriminator's."""
    generator = torch.nn.Sequential(
        torch.nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), torch.nn.BatchNorm2d(32), torch.nn.ReLU(True),
        torch.nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU(True),
        torch.nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), torch.nn.Tanh())
    discriminator = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 4, 2, 1, bias=False), torch.nn.LeakyReLU(0.2, inplace=True),
        torch.nn.Conv2d(16, 32, 4, 2, 1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.LeakyReLU(0.2, inplace=True),
        torch.nn.Conv2d(32, 1, 4, 1, 0, bias=False), torch.nn.Flatten(0))
    both = torch.nn.ModuleList([generator, discriminator])
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    real = itertools.cycle([torch.randn(4, 3, 16, 16).tanh() for _ in range(3)])

    def step():
        fake = generator(torch.randn(4, 16, 1, 1))
        discriminator.zero_grad()
        on_real = F.binary_cross_entropy_with_logits(discriminator(next(real)), torch.ones(4))
        on_real.backward()
        on_fake = F.binary_cross_entropy_with_logits(discriminator(fake.detach()), torch.zeros(4))
        on_fake.backward()
        of_discriminator.step()
        generator.zero_grad()
        loss = F.binary_cross_entropy_with_logits(discriminator(fake), torch.ones(4))
        loss.backward()
        of_generator.step()
        return loss

    return both, step


class VariationalAutoencoder(torch.nn.Module):
    def __init__(self, inputs=144, hidden=64, latent=8):
        super().__init__()
        self.encode = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ELU())
        self.mean, self.log_variance = torch.nn.Linear(hidden, latent), torch.nn.Linear(hidden, latent)
        self.decode = torch.nn.Sequential(torch.nn.Linear(latent, hidden), torch.nn.ELU(),
                                          torch.nn.Linear(hidden, inputs))

    def forward(self, x):
        hidden = self.encode(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        sample = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decode(sample), mean, log_variance


@model("vae")
def vae():
    module = VariationalAutoencoder()
    batches = [(torch.rand(8, 144),) for _ in range(4)]

    def loss_of(x):
        out, mean, log_variance = module(x)
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return F.binary_cross_entropy_with_logits(out, x, reduction="sum") + divergence

    return training(module, torch.optim.RMSprop(module.parameters(), lr=1e-3, centered=True, foreach=True), batches,
                    loss_of)


@model("diffusion", packages=("diffusers",))
def diffusion():
    """The step of a denoising diffusion model: noise added by the schedule, a UNet with attention predicts it."""
    from diffusers import DDPMScheduler, UNet2DModel
    module = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
                         norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                         up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8)
    schedule = DDPMScheduler(num_train_timesteps=100)
    batches = [(torch.randn(2, 3, 16, 16),) for _ in range(4)]

    def loss_of(clean):
        noise = torch.randn_like(clean)
        times = torch.randint(0, 100, (clean.shape[0],))
        return F.mse_loss(module(schedule.add_noise(clean, noise, times), times).sample, noise)

    return training(module, torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True), batches, loss_of)
