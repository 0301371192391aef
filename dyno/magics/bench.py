"""``%dyno bench f(x)``: not written yet in this slice."""


def run(request):
    raise NotImplementedError
