"""POST audio/transcriptions and audio/translations: fields, formats, windows, attempts, streams."""

import asyncio

import pytest
from speech_rig import TRANSCRIPTIONS, TRANSLATIONS, SpeechPipeline, decoded, form, heard, recording, segment

import server.apis.speech.endpoint as endpoint
from pipelines.values.reply_values import SpokenWord

VTT = "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nGuten Tag\n\n"
SRT = "1\n00:00:00,000 --> 00:00:01,000\nGuten Tag\n\n"


def test_json_is_the_default(speak):
    answer = speak()
    assert answer.status == 200
    assert answer.json == {"text": "Guten Tag", "usage": {"type": "duration", "seconds": 1}}
    (request,) = speak.pipeline.requests
    assert request.sampling["temperature"] == 0
    assert not request.timestamps


@pytest.mark.parametrize(("name", "body"), [("text", "Guten Tag\n"), ("srt", SRT), ("vtt", VTT)])
def test_plain_formats(speak, name, body):
    answer = speak(response_format=name)
    assert answer.body.decode() == body
    assert answer.headers["content-type"].startswith("text/plain")
    assert speak.pipeline.asked.timestamps is (name != "text")


def test_verbose_json(speak):
    answer = speak(response_format="verbose_json", timestamp_granularities__=["segment"]).json
    (only,) = answer.pop("segments")
    assert answer == {
        "task": "transcribe",
        "language": "de",
        "duration": 1.0,
        "text": "Guten Tag",
        "words": None,
        "usage": {"type": "duration", "seconds": 1},
    }
    assert (only["id"], only["start"], only["end"], only["avg_logprob"]) == (0, 0, 1, -0.25)
    assert (only["tokens"], only["temperature"], only["no_speech_prob"]) == ([7], 0, 0.1)


def test_a_translation(speak):
    assert speak(TRANSLATIONS).json == {"text": "Guten Tag"}
    assert speak.pipeline.asked.translate
    assert speak(TRANSLATIONS, response_format="verbose_json").json["language"] == "en"


def test_fields_reach_the_model(speak):
    assert speak(language="DE", prompt="Hallo", temperature="0.4", top_p="0.9", seed="5").status == 200
    request = speak.pipeline.asked
    assert (request.language, request.previous_text) == ("de", "Hallo")
    assert request.sampling == {"temperature": 0.4, "top_p": 0.9, "seed": 5}


def test_ovms_writes_segments_into_its_json(speak):
    answer = speak("/v3/audio/transcriptions", timestamp_granularities__=["segment"])
    assert answer.json == {
        "text": "Guten Tag",
        "segments": [{"text": " Guten Tag", "start": 0.0, "end": 1.0}],
    }


def with_words(request):
    """Two windows of one segment each; the first attempt at the first one is not good."""
    long_s = len(request.windows[0]) / 16_000
    text = " so" * 40 if long_s > 20 and not request.sampling["temperature"] else " Guten Tag."
    words = [SpokenWord("Guten", 0.5, 1.0), SpokenWord("Tag.", 1.0, long_s + 1)]
    return [heard(text, "stop", [segment(0, long_s, text)], language="de", words=[words])]


@pytest.mark.parametrize("granularities", [["word"], ["segment", "word"]])
def test_words_have_times_where_they_are_wanted(speak, granularities):
    fields = {"response_format": "verbose_json", "timestamp_granularities__": granularities}
    answer = speak(seconds=45.0, script=with_words, **fields).json
    assert answer["words"] == [
        {"word": "Guten", "start": 0.5, "end": 1.0},
        {"word": "Tag.", "start": 1.0, "end": 29.45},
        {"word": "Guten", "start": 29.95, "end": 30.45},
        {"word": "Tag.", "start": 30.45, "end": 45.0},
    ]
    assert (answer["segments"] is None) is ("segment" not in granularities)
    assert speak.pipeline.num_read == 2  # of the attempts that count
    assert speak(script=with_words, response_format="verbose_json").json["words"] is None
    assert speak.pipeline.num_read == 0


def test_ovms_writes_words_into_its_json(speak):
    fields = {"script": with_words, "timestamp_granularities__": ["word"]}
    words = [{"word": "Guten", "start": 0.5, "end": 1.0}, {"word": "Tag.", "start": 1.0, "end": 1.0}]
    assert speak("/v3/audio/transcriptions", **fields).json == {"text": "Guten Tag.", "words": words}
    refused = speak("/v3/audio/transcriptions", stream="true", **fields)
    assert (refused.status, "a stream has no words" in refused.body.decode()) == (400, True)


@pytest.mark.parametrize(
    ("fields", "field", "text"),
    [
        ({"seconds": None}, "file", "`file` is required"),
        ({"seconds": None, "file": "x"}, "file", "Expected 'file' to be a file-like object, not 'str'."),
        ({"response_format": "xml"}, "response_format", "'json', 'text', 'srt', 'verbose_json' or 'vtt'"),
        ({"stream_include_usage": "true"}, "stream_include_usage", "can only be defined when `stream=True`"),
        ({"stream": "true", "response_format": "srt"}, "response_format", "srt format doesn't support"),
        ({"stream": "true", "long_form": "sequential"}, "long_form", "must be 'parallel'"),
        ({"vllm_xargs": "{oops"}, "vllm_xargs", "Failed to parse vllm_xargs. Must be valid JSON"),
        ({"vllm_xargs": '{"x": 1}'}, "vllm_xargs.x", "x"),
        ({"hotwords": "Braid"}, "hotwords", "write the words that are expected into `prompt`"),
        ({"use_beam_search": "true"}, "use_beam_search", "beam search"),
        ({"n": "2"}, "n", "a recording has one text"),
        ({"temperature": "hot"}, "temperature", "must be a number"),
        ({"temperature": "3"}, "temperature", "must be in [0, 2]"),
        (
            {"finds_words": False, "response_format": "verbose_json", "timestamp_granularities__": ["word"]},
            "timestamp_granularities[]",
            "Word timestamps not supported for this model; allowed: segment.  Export it again",
        ),
        ({"timestamp_granularities__": ["segment"]}, "timestamp_granularities[]", "needs `response_format`"),
        ({"chunking_strategy": '{"type": "server_vad"}'}, "chunking_strategy", "'auto'"),
        ({"prompt": ["a", "b"]}, "prompt", "`prompt` is given twice"),
        ({"known_speaker_names__": ["a"]}, "known_speaker_names[]", "speakers are not recognised"),
    ],
)
def test_what_is_refused_names_its_field(speak, fields, field, text):
    answer = speak(**fields)
    assert answer.status == 400
    assert answer.error["param"] == field
    assert text in answer.error["message"]


def test_neutral_and_empty_values_pass(speak):
    fields = {"language": "", "use_beam_search": "false", "n": "1", "temperature": "", "model": ""}
    assert speak(**fields).status == 200
    assert "hotword;nearest=hotwords" in speak(hotword="x").headers["x-braid-ignored-fields"]


def test_a_file_has_a_bound(speak):
    answer = speak(settings={"max_audio_mb": 0.000001})
    assert answer.status == 400
    assert answer.error["message"].startswith(
        "Maximum file size exceeded (parameter=audio_filesize_mb, value="
    )


def test_what_is_no_sound_is_refused(speak, make_rig):
    speak()
    body, headers = form(b"not a recording")
    answer = make_rig(speak.pipeline).post("/v1/audio/transcriptions", body, **headers)
    assert (answer.status, answer.error["param"]) == (400, "file")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{}", "application/json"),
        (b"--x", "multipart/form-data"),
        (b"--x\r\n", "multipart/form-data; boundary=x"),
        (b"--x\r\n\r\n\r\n--x--", "multipart/form-data; boundary=x"),
        (
            b'--x\r\nContent-Disposition: form-data; name="a\r\n\r\nb\r\n--x--',
            "multipart/form-data; boundary=x",
        ),
        (b"", "multipart/form-data; boundary=x"),
        (b"--x--" * 70, "multipart/form-data; boundary=" + "x" * 71),
    ],
)
def test_what_is_no_form_is_refused(speak, make_rig, body, content_type):
    speak()
    answer = make_rig(speak.pipeline).post("/v1/audio/transcriptions", body, content_type=content_type)
    assert answer.status == 400


def test_too_many_fields_are_refused(speak):
    assert speak(**{f"f{i}": "x" for i in range(70)}).status == 400


def test_a_model_of_another_task_is_a_404(make_rig):
    body, headers = form(b"x", model="tiny")
    answer = make_rig().post("/v1/audio/transcriptions", body, **headers)
    assert answer.status == 404
    assert "does not transcribe speech" in answer.error["message"]


# --- windows


def test_a_long_recording_is_cut_where_it_is_quiet(speak):
    answer = speak(seconds=45.0, response_format="verbose_json").json
    assert [(segment_shown["start"], segment_shown["end"]) for segment_shown in answer["segments"]] == [
        (0, 29.45),
        (29.45, 45),
    ]
    assert [segment_shown["seek"] for segment_shown in answer["segments"]] == [0, 2945]
    assert answer["text"] == "Guten Tag Guten Tag"
    detected, *rest = speak.pipeline.requests
    assert detected.sampling["max_tokens"] == 0  # the language, of the first window, for all of them
    assert [request.language for request in rest] == ["de", "de"]
    first, *others = speak.pipeline.calls
    assert [call.earlier for call in others] == [first, None]  # each window is encoded once
    assert all(call.closed for call in speak.pipeline.calls)


def test_one_after_another_begins_where_a_segment_ended(speak):
    def script(request):
        if len(request.windows[0]) == 30 * 16_000:
            segments = [segment(0, 20, " one"), segment(20, 30, " cut", closed=False)]
            return [heard(" one cut", "stop", segments, language="en", continues_s=20.0)]
        return [heard(" two", "stop", [segment(0, 5, " two")])]

    answer = speak(seconds=40.0, script=script, long_form="sequential", response_format="verbose_json").json
    assert [
        (segment_shown["start"], segment_shown["end"], segment_shown["text"])
        for segment_shown in answer["segments"]
    ] == [
        (0, 20, " one"),
        (20, 25, " two"),
    ]
    assert answer["text"] == "one two"


def test_what_the_model_left_out_at_the_end_of_a_window_is_read_too(speak):
    def script(request):
        if len(request.windows[0]) == 10 * 16_000:
            return [heard(" one", "stop", [segment(0, 6, " one")], language="en", continues_s=6.0)]
        return [heard(" two", "stop", [segment(1, 3, " two")])]

    answer = speak(seconds=10.0, script=script, response_format="verbose_json").json
    assert [(each["start"], each["end"]) for each in answer["segments"]] == [(0, 6), (7, 9)]
    assert answer["text"] == "one two"


# --- attempts


def test_text_that_repeats_itself_is_tried_again_warmer(speak):
    def script(request):
        text = " so" * 40 if request.sampling["temperature"] < 0.4 else " so be it"
        return [heard(text, "stop", [segment(0, 1, text)])]

    answer = speak(script=script, response_format="verbose_json").json
    assert answer["text"] == "so be it"
    assert answer["segments"][0]["temperature"] == 0.4
    assert [request.sampling["temperature"] for request in speak.pipeline.requests] == [0, 0.2, 0.4]
    first, *others = speak.pipeline.calls
    assert [call.earlier for call in others] == [first, first]  # which had the window encoded
    assert all(call.closed for call in speak.pipeline.calls)
    speak(script=script, temperature="0.1")
    assert len(speak.pipeline.requests) == 1  # a temperature of the client's is the only one


def test_silence_has_no_text(speak):
    def script(request):
        return [heard(" Thanks", "stop", [segment(0, 1, " Thanks", -3.0)], no_speech_prob=0.9)]

    answer = speak(script=script, response_format="verbose_json").json
    assert (answer["text"], answer["segments"]) == ("", [])
    assert len(speak.pipeline.requests) == 1


def test_the_language_alone(speak):
    answer = speak(vllm_xargs='{"language_detection_only": true, "language_candidates": ["de", "en"]}')
    assert answer.json == {"text": "", "language": "de", "usage": {"type": "duration", "seconds": 1}}
    assert speak.pipeline.asked.candidates == ["de", "en"]


# --- streams


def test_a_stream_is_for_both_kinds_of_clients(speak):
    *deltas, done, usage, last = speak(stream="true", stream_include_usage="true").events
    assert [delta["delta"] for delta in deltas] == ["Guten", " Tag"]
    assert [delta["type"] for delta in deltas] == ["transcript.text.delta"] * 2
    assert [delta["choices"][0]["delta"]["content"] for delta in deltas] == ["Guten", " Tag"]
    assert {delta["object"] for delta in deltas} == {"transcription.chunk"}
    assert (done["type"], done["text"]) == ("transcript.text.done", "Guten Tag")
    assert done["choices"][0]["finish_reason"] == "stop"
    assert done["usage"] == {"type": "tokens", "input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 5)
    assert last == "[DONE]"


def test_ovms_streams_have_its_events_alone(speak):
    events = speak("/v3/audio/transcriptions", stream="true").events
    assert events[0] == {"type": "transcript.text.delta", "delta": "Guten", "logprobs": []}
    assert events[-1] == {"type": "transcript.text.done", "text": "Guten Tag", "logprobs": []}


def test_windows_stream_in_order(speak):
    events = speak(seconds=45.0, stream="true", language="de").events
    assert "".join(each["delta"] for each in events[:-2]) == "Guten Tag Guten Tag" == events[-2]["text"]


def test_a_failure_has_a_status_of_its_own(speak):
    def script(request):
        raise RuntimeError

    assert speak(stream="true", script=script).status == 500
    assert speak(script=script).status == 500


def test_large_recordings_side_by_side(make_rig, monkeypatch):
    """Each of 3 MB; 128 MB of one client may wait."""
    monkeypatch.setattr(endpoint, "decode_audio", decoded)
    body, headers = form(recording() + bytes(3 << 20))

    async def eight(client):
        return await asyncio.gather(*(client.post(TRANSCRIPTIONS, body, **headers) for _ in range(8)))

    answers = make_rig(SpeechPipeline()).run(eight)
    assert {answer.status for answer in answers} == {200}
