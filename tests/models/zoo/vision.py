"""Image classifiers, a detector, a segmentation network."""

import torch
from torch.nn import functional as F

from zoo.common import images, model, training


def _classifier(module, optimizer, size=64, classes=10, batch=2, **options):
    return training(module, optimizer, images(batch, size, classes), lambda x, y: F.cross_entropy(module(x), y),
                    **options)


@model("resnet50", packages=("torchvision",))
def resnet50():
    import torchvision
    module = torchvision.models.resnet50(num_classes=10)
    return _classifier(module, torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4))


@model("mobilenet_v3", packages=("torchvision",))
def mobilenet_v3():
    import torchvision
    module = torchvision.models.mobilenet_v3_small(num_classes=10)
    return _classifier(module, torch.optim.RMSprop(module.parameters(), lr=1e-3, momentum=0.9))


@model("efficientnet", packages=("torchvision",))
def efficientnet():
    import torchvision
    module = torchvision.models.efficientnet_b0(num_classes=10)
    return _classifier(module, torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=True))


@model("convnext", packages=("timm",))
def convnext():
    import timm
    module = timm.create_model("convnext_atto", pretrained=False, num_classes=10, drop_path_rate=0.1)
    return _classifier(module, torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True))


@model("vit", packages=("timm",))
def vit():
    import timm
    module = timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=64, num_classes=10, depth=4,
                               drop_rate=0.1)
    return _classifier(module, torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True), autocast=torch.bfloat16)


@model("swin", packages=("timm",))
def swin():
    import timm
    module = timm.models.SwinTransformer(img_size=64, patch_size=4, num_classes=10, embed_dim=24, depths=(2, 2),
                                         num_heads=(2, 4), window_size=4, drop_path_rate=0.1)
    return _classifier(module, torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=True), clip=1.0)


@model("detr", packages=("transformers",))
def detr():
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig
    backbone = ResNetConfig(embedding_size=16, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1],
                            out_features=["stage4"])
    module = DetrForObjectDetection(
        DetrConfig(use_timm_backbone=False, backbone_config=backbone, backbone=None, use_pretrained_backbone=False,
                   d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
                   encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=10, num_labels=5))
    batches = []
    for _ in range(2):
        labels = [{"class_labels": torch.tensor([1, 3]), "boxes": torch.rand(2, 4) * 0.4 + 0.1} for _ in range(2)]
        batches.append((torch.randn(2, 3, 96, 96), labels))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    return training(module, optimizer, batches, lambda x, labels: module(pixel_values=x, labels=labels).loss, clip=0.1)


class UNet(torch.nn.Module):
    """Ronneberger's, two levels deep, with batch norm."""

    def __init__(self, classes=3, width=16):
        super().__init__()
        def block(i, o):
            return torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, padding=1), torch.nn.BatchNorm2d(o),
                                       torch.nn.ReLU(inplace=True), torch.nn.Conv2d(o, o, 3, padding=1),
                                       torch.nn.BatchNorm2d(o), torch.nn.ReLU(inplace=True))
        self.down1, self.down2, self.middle = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up2, self.up1 = (torch.nn.ConvTranspose2d(4 * width, 2 * width, 2,
                                                       2), torch.nn.ConvTranspose2d(2 * width, width, 2, 2))
        self.join2, self.join1 = block(4 * width, 2 * width), block(2 * width, width)
        self.head = torch.nn.Conv2d(width, classes, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.middle(F.max_pool2d(second, 2))
        x = self.join2(torch.cat([self.up2(x), second], 1))
        x = self.join1(torch.cat([self.up1(x), first], 1))
        return self.head(x)


@model("unet")
def unet():
    module = UNet().to(memory_format=torch.channels_last)
    batches = [(torch.randn(2, 3, 48, 48).to(memory_format=torch.channels_last), torch.randint(0, 3, (2, 48, 48)))
               for _ in range(3)]
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    return training(module, optimizer, batches, lambda x, y: F.cross_entropy(module(x), y))
