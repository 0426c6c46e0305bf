// Asks the browser for a passkey, and sends what it signed with the form. Without this script, people sign in by code.
(() => {
  "use strict";
  const box = document.querySelector("[data-passkey]");
  if (!box || !window.PublicKeyCredential) return;
  const form = box.querySelector("form");
  const problem = box.querySelector(".wrong");
  const publicKey = JSON.parse(box.dataset.passkey);
  const isNew = Boolean(publicKey.user);
  const decode = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (character) => character.charCodeAt(0));
  const encode = (bytes) =>
    bytes &&
    btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
  publicKey.challenge = decode(publicKey.challenge);
  if (isNew) {
    publicKey.user.id = decode(publicKey.user.id);
    for (const known of publicKey.excludeCredentials) known.id = decode(known.id);
  }
  const send = ({ id, response }) => {
    const authenticatorData = isNew ? response.getAuthenticatorData() : response.authenticatorData;
    form.elements.response.value = JSON.stringify({
      id,
      response: {
        clientDataJSON: encode(response.clientDataJSON),
        authenticatorData: encode(authenticatorData),
        signature: encode(response.signature),
        userHandle: encode(response.userHandle),
      },
    });
    form.submit();
  };
  let waiting;
  // With "conditional", the browser offers passkeys among the suggestions of the email field, and asks nothing.
  const ask = async (mediation) => {
    waiting?.abort();
    waiting = new AbortController();
    const { signal } = waiting;
    const { credentials } = navigator;
    try {
      send(await (isNew ? credentials.create({ publicKey, signal }) : credentials.get({ publicKey, mediation, signal })));
    } catch (error) {
      if (mediation || signal.aborted) return;
      problem.textContent = error.name === "InvalidStateError" ? box.dataset.exists : box.dataset.failed;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    problem.textContent = "";
    ask();
  });
  document.getElementById("no-passkeys")?.remove();
  box.hidden = false;
  if (!isNew) {
    PublicKeyCredential.isConditionalMediationAvailable?.().then((available) => available && ask("conditional"));
  }
})();
