# python/tests/test_torch_freezing.py -- options={"freezing": True}: parameters are packed when they are
# read first, and every change that PyTorch counts is seen.
import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402

torch = None


def setUpModule():
    global torch
    torch = where.find()


def programs():
    """The program of each graph that lives."""
    from luminal.torch import backend
    from luminal.torch.program import Program

    executors = [one() for one in backend.made]
    return [step for one in executors if one is not None for step in one.steps if isinstance(step, Program)]


class Freezing(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.told = io.StringIO()
        self.enterContext(contextlib.redirect_stderr(self.told))

    def compiled(self, model, **words):
        return torch.compile(model, backend="luminal", options={"freezing": True}, **words)

    def same(self, got, wanted):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)

    def network(self):
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * 64, 10),
        ).eval()

    def test_parameters_are_weights(self):
        model, x = self.network(), torch.randn(2, 3, 8, 8)
        model[1].running_var.uniform_(0.5, 2)
        made = self.compiled(model)
        with torch.no_grad():
            for _ in range(3):
                self.same(made(x), model(x))
        program = programs()[-1]
        self.assertEqual(len(program.inputs) - len(program.frozen), 1)  # x
        self.assertGreater(program.graph.memory().loaded, 0)
        self.assertEqual(self.told.getvalue(), "")

    def test_changes_are_seen(self):
        model, x = self.network(), torch.randn(2, 3, 8, 8)
        made = self.compiled(model)
        others = self.network().state_dict()

        def replace():
            model[4].weight = torch.nn.Parameter(torch.randn(10, 16 * 64))

        changes = {
            "in place": lambda: model[0].weight.mul_(2),
            "a view": lambda: model[0].weight[1].fill_(0.1),
            "a buffer": lambda: model[1].running_mean.add_(0.5),
            "detached": lambda: model[4].bias.detach().add_(1),
            "foreach": lambda: torch._foreach_mul_(list(model.parameters()), 0.5),
            "data": lambda: setattr(model[4].bias, "data", torch.randn(10)),
            "another parameter": replace,
            "load_state_dict": lambda: model.load_state_dict(others),
            "assigned": lambda: model.load_state_dict(self.network().state_dict(), assign=True),
        }
        with torch.no_grad():
            before = made(x)
            for name, change in changes.items():
                with self.subTest(name):
                    change()
                    wanted = model(x)
                    self.assertFalse(torch.allclose(wanted, before))
                    self.same(made(x), wanted)
                    before = made(x)
                    self.same(before, wanted)
        program = programs()[-1]  # each changed once, and stays a weight
        self.assertEqual(len(program.inputs) - len(program.frozen), 1)

    def test_a_change_that_is_not_counted(self):
        import luminal.torch

        model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
        made = self.compiled(model)
        with torch.no_grad():
            self.same(made(x), model(x))
            model.weight.data.add_(1)
            luminal.torch.reload()
            self.same(made(x), model(x))

    def test_what_changes_at_each_call_is_an_input(self):
        class Counting(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)
                self.register_buffer("offset", torch.zeros(4))

            def forward(self, x):
                return self.linear(x) + self.offset

        model, x = Counting(), torch.randn(2, 4)
        made = self.compiled(model)
        with torch.no_grad():
            for _ in range(4):
                self.same(made(x), model(x))
                model.offset.add_(1)
        program = programs()[-1]
        self.assertEqual(len(program.frozen), 2, [node.name for node in program.inputs])

    def test_statistics_that_the_graph_updates(self):
        models = [torch.nn.BatchNorm1d(4) for _ in range(2)]
        made, x = self.compiled(models[0]), torch.randn(8, 4) + 3
        with torch.no_grad():
            for _ in range(3):
                self.same(made(x), models[1](x))
            self.same(models[0].running_mean, models[1].running_mean)
            for model in models:
                model.eval()
            self.same(made(x), models[1](x))

    def test_sizes_that_change(self):
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
        made = self.compiled(model, dynamic=True)
        with torch.no_grad():
            for rows in (3, 7, 200, 5):
                x = torch.randn(rows, 8)
                self.same(made(x), model(x))

    def test_inference_mode(self):
        with torch.inference_mode():
            model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
            made = self.compiled(model)
            self.same(made(x), model(x))
            model.weight = torch.nn.Parameter(torch.randn(4, 4))
            self.same(made(x), model(x))

    def test_other_orders_and_types(self):
        model = torch.nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
        x = torch.randn(2, 4, 6, 6).contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            self.same(self.compiled(model)(x), model(x))
            model = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
            x = torch.randn(3, 8, dtype=torch.bfloat16)
            torch.testing.assert_close(self.compiled(model)(x), model(x))

    def test_results_of_weights_alone(self):
        class Table(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Parameter(torch.randn(3, 4))

            def forward(self, x):
                return self.table, self.table.exp(), x + self.table.sum()

        model, x = Table(), torch.randn(2)
        made = self.compiled(model)
        with torch.no_grad():
            for _ in range(2):
                got, wanted = made(x), model(x)
                self.same(got, wanted)
                self.assertEqual(got[0].data_ptr(), model.table.data_ptr())
                got[1].zero_()  # the caller's own
            model.table.add_(1)
            self.same(made(x), model(x))

    def test_what_stays_in_pytorch(self):
        class Special(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, x):
                return self.linear(torch.lgamma(self.linear(x)))

        model, x = Special(), torch.randn(2, 4)
        made = self.compiled(model)
        with torch.no_grad():
            self.same(made(x), model(x))
            model.linear.weight.mul_(0.5)
            self.same(made(x), model(x))
        self.assertIn("lgamma", self.told.getvalue())

    def test_option(self):
        with self.assertRaisesRegex(Exception, "freezing is True or False, not 'yes'"):
            torch.compile(lambda x: x + 1, backend="luminal", options={"freezing": "yes"})(torch.ones(2))


if __name__ == "__main__":
    unittest.main()
