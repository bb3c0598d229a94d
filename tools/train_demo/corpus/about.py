"""Turns about Braid itself: what it is, how it is started, asked and given a model."""

from __future__ import annotations

from ..conversation import Turn, contains
from ..split import Draw, Split, phrasings

WHAT = phrasings("""
    What is Braid?
    What's Braid?
    what is braid
    Braid?
    What does Braid do?
    Explain Braid.
    Explain Braid in one sentence.
    Tell me about Braid.
    Can you tell me about Braid?
    Can you explain what Braid is?
    Describe Braid.
    Do you know Braid?
    What is Braid for?
    What is Braid good for?
    What kind of program is Braid?
    What is the Braid server?
    What is this server?
    Which server is this?
    Who is Braid for?
    Why Braid?
    I want to know what Braid is.
    Braid, what is that?
    What type of program is this Braid?
    Give me some information about Braid.
    Say something about Braid.
    I would like to hear about Braid.
    What is it that Braid does?
    I have never heard of Braid.
    What am I looking at, what is Braid?
    More about Braid, please.
    Can you describe the Braid software?
    * Could you tell me what Braid is?
    * What sort of software is Braid?
    * Please explain what Braid does.
    * Tell me more about Braid.
""")
START = phrasings("""
    How do I start Braid?
    How do I use Braid?
    How can I use Braid?
    How do I use it?
    How do I run Braid?
    How do I use this server?
    How can I start the server?
    How do I start the server?
    How do I begin with Braid?
    How does one use Braid?
    Show me how to use Braid.
    Tell me how to start Braid.
    Tell me how to use Braid.
    Explain how to use Braid.
    What do I do to run Braid?
    Which command starts Braid?
    Which command starts the server?
    How do I get started?
    I want to start Braid.
    How can I get the server to run?
    What must I type to start Braid?
    With which command do I run the Braid server?
    Is there a command that runs the server?
    Give me the command for starting Braid.
    How does Braid start?
    How can Braid be started?
    What is the command to run Braid?
    I would like to run Braid. How?
    First steps with Braid?
    What should I do to have Braid up?
    * How would I use Braid?
    * How do I get Braid running?
    * Please show me how to start Braid.
    * What command starts the Braid server?
""")
ASK = phrasings("""
    How do I send a request?
    How do I send a request to Braid?
    How do I call the API?
    Which API does Braid have?
    What API does Braid have?
    Which clients work with Braid?
    Which APIs does Braid serve?
    Can I use the openai client?
    Can I use the OpenAI client with Braid?
    Does Braid work with openai?
    Is Braid compatible with OpenAI?
    How can I talk to Braid from Python?
    How do I ask Braid something from Python?
    How is the server asked?
    How can I send something to the server?
    Which clients can I use?
    Which interface does the server have?
    Is there an API for requests?
    Can my OpenAI program talk to Braid?
    * Does Braid work with the OpenAI client?
    * How do I send requests to the server?
    * Which APIs does the Braid server have?
""")
ADD = phrasings("""
    How do I add a model?
    How do I add a model to Braid?
    How can I add my own model?
    How do I serve my own model?
    How do I serve another model?
    How do I load a model?
    How do I export a model?
    Can Braid serve my model?
    Can I use my own model?
    Can I use another model?
    How do I use a bigger model?
    Which models can Braid serve?
    Where do I put my model?
    I have a model. How do I serve it?
    I want Braid to serve my model.
    Is it possible to serve another model?
    Can I bring another model to Braid?
    How does a new model get into Braid?
    * How would I add my own model to Braid?
    * How can Braid serve another model?
    * How do I bring my own model?
""")
REAL = phrasings("""
    Is there a better model?
    Do you have a bigger model?
    Is there a real model?
    How do I get a real model?
    How do I get a better model?
    How do I start a real chat model?
    How do I chat with a real model?
    Why are you so small?
    Why are you so stupid?
    You are stupid.
    You are bad.
    That is wrong.
    Your answer is wrong.
    What is make demo-chat?
    What does make demo-chat do?
    I need a better model.
    Can I have a larger chat model?
    Which model is better than you?
    Where is the real model?
    Can I talk to a real chat model?
    You are not very clever.
    * Is there a larger model?
    * How can I get a better chat model?
    * Where can I get a real model?
""")
OPENVINO = phrasings("""
    What is OpenVINO?
    What's OpenVINO?
    Explain OpenVINO.
    Does Braid use OpenVINO?
    What is OpenVINO for?
    Tell me about OpenVINO.
    Who made OpenVINO?
    What do you know about OpenVINO?
    Say something about OpenVINO.
    * What does OpenVINO do?
    * Can you explain OpenVINO?
""")
GRAPH = phrasings("""
    What is a graph in Braid?
    What is graph.yaml?
    What is a graph.yaml?
    What does graph.yaml hold?
    What is a model graph?
    What is a declarative graph?
    Explain the graph of a model.
    What is inside of graph.yaml?
    Why is there a graph.yaml?
    Tell me about graph.yaml.
    * What stands in graph.yaml?
    * Can you explain graph.yaml?
""")
IS = (
    "Braid is a model server: it serves chat models, embeddings, rerankers and classifiers, "
    "each one as a declarative graph."
)
STARTED = "Run `make serve` and send requests to http://127.0.0.1:8000/v1; the README shows examples."
ASKED = (
    "Braid serves the APIs of OpenAI, Anthropic and others: point your client at http://127.0.0.1:8000/v1."
)
ADDED = "Run `braid export` with your model, or serve a GGUF file as it is; then start `braid serve`."
BETTER = "I am only a very small demo model. `make demo-chat` starts a real chat model."
ENGINE = "OpenVINO is Intel's toolkit that runs models on processors; Braid uses it."
YAML = "A `graph.yaml` connects template, tokenizer, model, sampler and parsers; Braid runs that graph."
KINDS: dict[str, tuple[Split[str], str, str]] = {
    "what": (WHAT, IS, "model server"),
    "start": (START, STARTED, "make serve"),
    "ask": (ASK, ASKED, "OpenAI"),
    "add": (ADD, ADDED, "braid export"),
    "real": (REAL, BETTER, "make demo-chat"),
    "openvino": (OPENVINO, ENGINE, "toolkit"),
    "graph": (GRAPH, YAML, "graph.yaml"),
}
WEIGHTS = {"what": 4, "start": 3, "ask": 2, "add": 2, "real": 2, "openvino": 1.5, "graph": 1}


def about(draw: Draw) -> Turn:
    """A question about Braid and its answer."""
    asked, answer, key = KINDS[draw.weighted(WEIGHTS)]
    return Turn(draw.phrase(asked), answer, "The user asks about Braid.", contains(key))
