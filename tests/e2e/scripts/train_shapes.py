"""A training script as people have them: its own arguments, meters and print format, and not a word of trainmark.

Trains a small convolutional network to tell bars from checks in noisy images. At the end it says how fast it was, from
the end of its tenth iteration on.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import nn


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.val = self.sum = self.count = 0

    def update(self, val):
        self.val = val
        self.sum += val
        self.count += 1

    def __str__(self):
        return ("{} {" + self.fmt + "} ({" + self.fmt + "})").format(self.name, self.val, self.sum / self.count)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        )  # fmt: skip
        self.classifier = nn.Linear(width, 2)

    def forward(self, images):
        return self.classifier(self.features(images).mean(dim=(2, 3)))


def make_batch(batch_size, size, generator):
    labels = torch.randint(0, 2, (batch_size,), generator=generator)
    rows = torch.arange(size)
    bars = (rows // 4 % 2).float().expand(size, size)
    checks = ((rows[:, None] // 4 + rows // 4) % 2).float()
    clean = torch.where(labels[:, None, None] == 0, bars, checks)
    return (clean + torch.randn(batch_size, size, size, generator=generator))[:, None], labels


def main():
    parser = argparse.ArgumentParser(description="bars or checks")
    parser.add_argument("-b", "--batch-size", default=32, type=int)
    parser.add_argument("--iterations", default=200, type=int)
    parser.add_argument("--size", default=32, type=int)
    parser.add_argument("--width", default=8, type=int)
    parser.add_argument("--print-freq", default=10, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--times", help="write the time of each printed line there")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    model = Net(args.width)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch_time, losses = AverageMeter("Time", ":6.3f"), AverageMeter("Loss", ":.4e")

    warmup, begin, times = 10, None, []
    end = time.time()
    for i in range(args.iterations):
        images, labels = make_batch(args.batch_size, args.size, generator)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item())
        batch_time.update(time.time() - end)
        end = time.time()
        if i + 1 == warmup:
            begin = end
        if (i + 1) % args.print_freq == 0:
            times.append(end)
            print(f"Epoch: [0][{i + 1:>3}/{args.iterations}]", batch_time, losses, sep="\t")

    if args.times:
        Path(args.times).write_text("\n".join(map(repr, times)))
    seconds = end - begin
    num_images = (args.iterations - warmup) * args.batch_size
    print(f"{num_images} images in {seconds:.3f} s after warm-up: {num_images / seconds:.2f} images/s")


if __name__ == "__main__":
    main()
