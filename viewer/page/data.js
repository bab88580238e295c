"use strict";
// Answers come from the server or, in a page that was written as one file, from that file.

const written = document.getElementById("answers");
const ANSWERS = written ? JSON.parse(written.textContent) : null;

/** The answer to a question such as "0/group/40/3". Throws an Error with a message to read. */
async function ask(question) {
  if (ANSWERS) {
    if (question in ANSWERS) return ANSWERS[question];
    throw new Error("This page was written as one file and holds a part of the run. `make view` shows all of it.");
  }
  return fetched(question);
}

/** What the server answers; `method` POST lets it begin a work, and waits for its end. */
async function fetched(question, method = "GET") {
  let response;
  try {
    response = await fetch(`api/${encodeURIComponent(question)}`, { method });
  } catch {
    throw new Error("The server has stopped: `make view` starts it again.");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
  return answer;
}
