"""Networks from text: what is written is read back, and what is malformed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublearn as sl
from networks.reference import NETWORKS, by_spec, one_sentence
from sublearn import BadInputError
from sublearn.networks import Network, known_kinds, network_from_text

FORMS = {kind: known_kinds()[kind] for kind in ("lrnn", "rnn", "ffn", "linear")}

size = st.integers(1, 99)
word = st.sampled_from(["linear", "relu", "tanh", "sigmoid"])
any_network = st.one_of(
    st.builds(sl.LinearEstimator, size, size),
    st.builds(sl.LinearRNN, size, size, size, size),
    st.builds(sl.RNN, size, size, size, size, word.filter(lambda w: w != "linear")),
    st.builds(sl.FeedForward, st.lists(size, min_size=2, max_size=6), word, word, st.booleans()),
)


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
def test_spec_of_the_catalog_is_read_back(network: Network) -> None:
    assert network_from_text(network.spec) == network


@given(any_network)
def test_spec_is_read_back(network: Network) -> None:
    assert network_from_text(network.spec) == network
    assert network_from_text(network.spec).spec == network.spec


@pytest.mark.parametrize("kind", FORMS)
def test_the_forms_shown_in_messages_can_be_read(kind: str) -> None:
    assert network_from_text(FORMS[kind]).spec.startswith(f"{kind}:")


def test_order_spaces_and_defaults() -> None:
    net = sl.LinearRNN(n=8, b=1, d=4, T=3)
    assert network_from_text("lrnn:T=3, d=4,b=1 ,n=8") == net
    assert network_from_text("rnn:n=8,b=1,d=4,T=3") == sl.RNN(8, 1, 4, 3, "tanh")
    assert network_from_text("ffn:4-2,bias=yes,output=tanh") == sl.FeedForward(
        (4, 2), output="tanh", bias=True
    )
    assert network_from_text("ffn:4-2,bias=no,activation=linear") == sl.FeedForward((4, 2))


MALFORMED = {
    "": "kind of network .* must be one of linear, lrnn, rnn, ffn(, .*)?, not ''",
    "lrn:n=8,b=1,d=4,T=4": "Did you mean 'lrnn'",
    "LRNN:n=8,b=1,d=4,T=4": "kind of network",
    "cnn:3": "kind of network",
    "ffn": "cannot be read: write it like 'ffn:4-8-8-6",
    "ffn:": "cannot be read",
    "ffn:4": "sizes must name at least an input and an output",
    "ffn:4-": "cannot be read",
    "ffn:4--8": "cannot be read",
    "ffn:-4-8": "cannot be read",
    "ffn:4-x": "cannot be read",
    "ffn:4-8.5": "cannot be read",
    "ffn:0-8": "sizes must be a whole number of at least 1",
    "ffn:4-8,relu": "cannot be read",
    "ffn:4-8,activation=": "activation must be one of",
    "ffn:4-8,activation=rellu": "Did you mean 'relu'",
    "ffn:4-8,output=step": "output must be one of",
    "ffn:4-8,bias=maybe": "bias must be one of yes, no",
    "ffn:4-8,bias=yes,bias=no": "cannot be read: it sets bias twice",
    "ffn:4-8,depth=3": "cannot be read: what it sets must be one of activation, output, bias, not 'depth'",
    "ffn:activation=relu": "cannot be read",
    "lrnn": "lacks n, b, d, T",
    "lrnn:n=8,b=1,d=4": "lacks T: write 'lrnn:n=8,b=1,d=4,T=4'",
    "lrnn:n=8,b=1,d=4,T=4,n=8": "cannot be read",
    "lrnn:n=8,b=1,d=4,t=4": "not 't'. Did you mean 'T'",
    "lrnn:n=8,b=1,d=4,T=four": "cannot be read",
    "lrnn:n=8,b=1,d=4,T=": "cannot be read",
    "lrnn:n=8,b=1,d=4,T=0": "T must be a whole number of at least 1, not 0",
    "lrnn:n=-8,b=1,d=4,T=4": "n must be a whole number of at least 1, not -8",
    "lrnn:n=8,b=1,d=4,T=4,activation=tanh": "cannot be read",
    "lrnn:8,1,4,4": "cannot be read",
    "rnn:n=8,b=1,d=4,T=4,activation=linear": "activation must be one of relu, tanh, sigmoid",
    "linear:inputs=3": "lacks outputs",
    "linear:3-2": "cannot be read",
    "linear:inputs=3,outputs=" + "9" * 5000: "cannot be read",
}


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: text[:40] or "empty")
def test_malformed_texts_get_one_sentence(text: str) -> None:
    with pytest.raises(BadInputError, match=MALFORMED[text]) as caught:
        network_from_text(text)
    assert one_sentence(caught.value)


@given(st.text(max_size=20), st.sampled_from(["", *(f"{kind}:" for kind in FORMS)]))
def test_any_text_is_read_or_refused(text: str, start: str) -> None:
    try:
        network = network_from_text(start + text)
    except BadInputError:
        return
    assert network_from_text(network.spec) == network
