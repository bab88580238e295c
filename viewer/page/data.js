"use strict";
// The page's data, which stands in the page itself.

const ANSWERS = JSON.parse(document.getElementById("answers").textContent);

/** The answer to a question such as "0/group/40/3". Throws an Error with a message to read. */
async function ask(question) {
  if (!Object.hasOwn(ANSWERS, question)) {
    throw new Error("This page holds a part of the run, and not this.");
  }
  const answer = ANSWERS[question];
  if (typeof answer.error === "string") throw new Error(answer.error);
  return answer;
}
