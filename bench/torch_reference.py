"""The programs of bench/gpu.sh in PyTorch, eager and compiled: median of event times, in microseconds."""
import torch
import torch.nn.functional as F


def median_us(f, repeats=30):
    for _ in range(5):
        f()
    times = []
    for _ in range(repeats):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1e3)
    return sorted(times)[len(times) // 2]


def report(name, f, bytes_least):
    torch._dynamo.reset()
    compiled = torch.compile(f)
    eager, fused = median_us(f), median_us(compiled)
    print(f"{name:34s} eager {eager:10.1f} us {bytes_least / eager / 1e3:7.0f} GB/s   "
          f"compiled {fused:10.1f} us {bytes_least / fused / 1e3:7.0f} GB/s", flush=True)


def rows(d, dtype):
    x = torch.randn(268435456 // d, d, device="cuda", dtype=dtype)
    return x, 2 * x.numel() * x.element_size()


def main():
    print("PyTorch", torch.__version__)
    x = torch.randn(4, 10, 32, device="cuda")
    report("logsumexp_dim0", lambda: torch.logsumexp(x, 0), 6400)
    x = torch.randn(4096, 393216, device="cuda")
    report("log_softmax_rows", lambda: F.log_softmax(x, 1), 2 * 4 * x.numel())
    x = torch.randn(128, 64, 126, 126, device="cuda")
    gamma, beta = torch.randn(64, device="cuda"), torch.randn(64, device="cuda")
    report("gn_tail", lambda: torch.logsumexp(x + F.hardswish(torch.tanh(F.group_norm(x, 16, gamma, beta, 1e-5))), 1, True),
           4 * x.numel() + 4 * x.numel() // 64)
    x = torch.randn(8, 16, 1024, 1024, device="cuda")
    mask = torch.rand(8, 1, 1024, 1024, device="cuda") < 0.5
    report("attention_softmax", lambda: torch.softmax(torch.where(mask, -torch.inf, x * 0.125), -1), 2 * 4 * x.numel() + mask.numel())
    for d in (1000, 1024, 4096, 16384, 30522, 32768, 49152, 65536, 262144):
        x, n = rows(d, torch.float32)
        report(f"softmax_f32 rows of {d}", lambda: torch.softmax(x, 1), n)
        g, b = torch.randn(d, device="cuda"), torch.randn(d, device="cuda")
        report(f"layer_norm rows of {d}", lambda: F.layer_norm(x, (d,), g, b, 1e-5), n)
        x, n = rows(d, torch.bfloat16)
        report(f"softmax_bf16 rows of {d}", lambda: torch.softmax(x, 1), n)
    x = torch.randn(1 << 30, device="cuda")
    report("sum of 2^30", lambda: x.sum(), 4 << 30)
    for n, c in ((16, 1024), (1024, 64)):
        x = torch.randn(n, c, 4096, device="cuda")
        report(f"softmax of ({n},{c},4096) axis 1", lambda: torch.softmax(x, 1), 8 * x.numel())


main()
