/** What a visitor wants to know before they lend anything. */
export function AboutCard() {
  return (
    <section class="card" aria-labelledby="about-title">
      <h2 id="about-title">What joining does</h2>
      <ul class="plain-list">
        <li>This page downloads the model that its relay serves, and computes answers with it on your GPU.</li>
        <li>It works as long as the page is open. Pause and leave whenever you like: others take over what runs.</li>
        <li>It sees only the tokens of requests that the relay gives it, and shows and keeps none of them.</li>
      </ul>
    </section>
  );
}
