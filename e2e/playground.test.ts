// The playground, used as a person would: a chat and a raw prompt answered by a page that serves, every sort of setting,
// stopping, tokens with their alternatives, and what goes wrong.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../src/cli/paths.ts';
import { expectAccessible } from './harness/accessible.ts';
import { TestBrowser, untilState } from './harness/browser.ts';
import { COMPLETION, PROMPT } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';

const pictures = join(packageRoot, 'test-results');
const CLIENT = 'client-token-0123456789';
const NODE = 'node-token-0123456789';

let relay: TestRelay;
let browser: TestBrowser;

beforeAll(async () => {
  mkdirSync(pictures, { recursive: true });
  relay = await startRelay(['--client-token', CLIENT, '--node-token', NODE]);
  browser = await TestBrowser.launch();
});

afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
});

const answer = (page: Page) => page.locator('.answer').last();
const status = (page: Page) => answer(page).getByRole('status');
const box = (page: Page) => page.getByRole('textbox', { name: 'Prompt' });
const field = (page: Page, name: string) => page.getByLabel(name, { exact: true });

async function open(): Promise<Page> {
  const page = await browser.open(`${relay.webUrl}/#playground`);
  await page.getByLabel('Token').fill(CLIENT);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Settings' }).waitFor({ timeout: 15_000 });
  return page;
}

async function run(page: Page, prompt: string, end = 'Done', boundMs = 30_000): Promise<string> {
  await box(page).fill(prompt);
  await page.getByRole('button', { name: 'Run' }).click();
  await status(page).getByText(end, { exact: true }).waitFor({ timeout: boundMs });
  return (await answer(page).locator('.sample-text').first().innerText()).trim();
}

async function openGroup(page: Page, name: string): Promise<void> {
  await page.locator('summary').getByText(name, { exact: true }).click();
}

test('says what is wrong while no node serves, and asks for a token that may ask', async () => {
  const page = await browser.open(`${relay.webUrl}/#playground`);
  await page.getByRole('heading', { name: 'Sign in to ask the model' }).waitFor({ timeout: 15_000 });
  await expectAccessible(page, 'signed out');
  await page.getByLabel('Token').fill('not-a-token-0123456789');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('does not take the token').waitFor({ timeout: 5_000 });
  await page.getByLabel('Token').fill(NODE);
  await page.getByRole('button', { name: 'Sign in' }).click();
  // A node's token gets the tokenizer, and may not ask.
  await page.getByRole('button', { name: 'Send' }).waitFor({ timeout: 15_000 });
  await field(page, 'Message').fill('Once');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('alert').getByText('node role may not').waitFor({ timeout: 5_000 });
  await page.context().close();
  browser.errors.splice(0);
});

test('answers a prompt, token by token, and a chat', async () => {
  const node = await browser.open(`${relay.webUrl}/#join=${NODE}`);
  await untilState(node, 'serving', 45_000);

  const page = await open();
  await page.getByRole('radio', { name: 'Prompt' }).check();
  await field(page, 'Temperature').fill('0');
  await field(page, 'Tokens at most').fill('60');
  const text = await run(page, PROMPT);
  expect(text.length).toBeGreaterThan(100);
  expect(COMPLETION.trim().slice(0, text.length)).toBe(text);
  expect(await answer(page).innerText()).toMatch(/60 made[\s\S]*answered by node 0/);
  expect(await answer(page).innerText()).toContain('Ended at its greatest length.');

  // Tokens: coloured, reached by keys, each with its alternatives.
  await page.getByRole('button', { name: 'Tokens' }).click();
  const tokens = answer(page).getByRole('list', { name: 'Tokens' }).getByRole('button');
  expect(await tokens.count()).toBe(60);
  await tokens.first().focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  const table = answer(page).getByRole('table');
  expect(await table.getByRole('row').count()).toBe(1 + 5);
  // Greedy: what was taken is the likeliest.
  expect(await table.getByRole('row').nth(1).innerText()).toMatch(/taken[\s\S]* %/);
  const steps = await tokens.evaluateAll((all) => new Set(all.map((one) => one.getAttribute('data-step'))).size);
  expect(steps).toBeGreaterThan(1);
  await expectAccessible(page, 'tokens');
  await page.screenshot({ path: join(pictures, 'playground-tokens.png'), fullPage: true });
  await page.getByRole('button', { name: 'Tokens' }).click();

  await page.getByRole('radio', { name: 'Chat' }).check();
  for (const said of ['Once upon a time', 'Then the dog']) {
    await field(page, 'Message').fill(said);
    await page.keyboard.press('Enter');
    await status(page).getByText('Done', { exact: true }).waitFor({ timeout: 30_000 });
  }
  const turns = page.getByRole('list', { name: 'Chat' }).locator(':scope > li');
  expect(await turns.count()).toBe(2);
  // The second prompt holds the first turn.
  const prompts = (await turns.allInnerTexts()).map((words) => Number(/prompt (\d+) tokens/.exec(words)?.[1]));
  expect(prompts[1]).toBeGreaterThan(prompts[0]! + 55);
  await expectAccessible(page, 'a chat');
  await page.screenshot({ path: join(pictures, 'playground-chat.png'), fullPage: true });
  await page.getByRole('button', { name: 'Take the last message back' }).click();
  expect(await turns.count()).toBe(1);
  expect(await field(page, 'Message').inputValue()).toBe('Then the dog');
  await page.getByRole('button', { name: 'New chat' }).click();
  expect(await turns.count()).toBe(0);

  // Who signs out leaves nothing to who signs in next, in whichever view, and while it is answered.
  await field(page, 'Message').press('Enter');
  await turns.first().waitFor();
  await page.getByRole('link', { name: 'Fleet' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('link', { name: 'Playground' }).click();
  await page.getByRole('heading', { name: 'Sign in to ask the model' }).waitFor({ timeout: 15_000 });
  await page.getByLabel('Token').fill(CLIENT);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('radio', { name: 'Chat' }).check({ timeout: 15_000 });
  expect(await turns.count()).toBe(0);
  expect(await field(page, 'Message').inputValue()).toBe('');
  await page.context().close();
  expect(browser.errors.splice(0).filter((line) => !/40[13]/.test(line))).toEqual([]);
});

test('serves a regex and a schema, a seed, several samples and stop texts', async () => {
  const page = await open();
  await page.getByRole('radio', { name: 'Prompt' }).check();
  await openGroup(page, 'Structured output');
  await field(page, 'The answer is').selectOption('regex');
  await field(page, 'Regular expression').fill('(red|green|blue) (cat|dog)');
  expect(await run(page, 'The ')).toMatch(/^(red|green|blue) (cat|dog)$/);
  await field(page, 'The answer is').selectOption('jsonSchema');
  await field(page, 'JSON schema').fill(
    '{"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"],"additionalProperties":false}',
  );
  expect(JSON.parse(await run(page, 'Some JSON: '))).toEqual({ n: expect.toBeOneOf([1, 2]) });

  // What can't be sent is told at its field, and nothing is lost.
  await field(page, 'JSON schema').fill('{');
  await page.getByRole('button', { name: 'Run' }).click();
  await page
    .getByRole('alert')
    .getByText(/jsonSchema: that is no JSON/)
    .waitFor({ timeout: 5_000 });
  expect(await box(page).inputValue()).toBe('Some JSON: ');
  // What the relay refuses, it names.
  await field(page, 'JSON schema').fill('{"type":"nothing"}');
  await page.getByRole('button', { name: 'Run' }).click();
  await answer(page)
    .getByRole('alert')
    .getByText(/json_schema/)
    .waitFor({ timeout: 10_000 });
  await field(page, 'The answer is').selectOption('none');

  // A number that can't be read is told where it stands, each time, also in a group that was closed.
  await openGroup(page, 'More of sampling');
  await field(page, 'Seed').pressSequentially('1e');
  for (let turn = 0; turn < 2; turn++) {
    await page.getByText('More of sampling').click();
    await field(page, 'Seed').waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Run' }).click();
    await field(page, 'Seed').waitFor();
    expect(await field(page, 'Seed').getAttribute('aria-invalid')).toBe('true');
  }
  await field(page, 'Seed').fill('11');
  await field(page, 'Samples').fill('2');
  await field(page, 'Tokens at most').fill('30');
  const samples = async () => {
    await run(page, 'Once upon a time');
    return answer(page).locator('.sample-text').allInnerTexts();
  };
  const first = await samples();
  expect(first).toHaveLength(2);
  expect(first[0]).not.toBe(first[1]);
  expect(await samples()).toEqual(first);

  await openGroup(page, 'Length and stops');
  await field(page, 'Samples').fill('1');
  await field(page, 'Temperature').fill('0');
  await field(page, 'Stop texts').fill('girl');
  await field(page, 'Tokens at most').fill('100');
  await run(page, 'Once upon a time');
  expect(await answer(page).innerText()).toContain('Ended by the text "girl".');
  await page.context().close();
  expect(browser.errors.splice(0).filter((line) => !/40\d/.test(line))).toEqual([]);
});

test('stops, keeps what came, fits a narrow screen in both themes', async () => {
  const page = await open();
  await page.setViewportSize({ width: 360, height: 740 });
  await page.getByRole('radio', { name: 'Prompt' }).check();
  await openGroup(page, 'Length and stops');
  await field(page, "Go on after the model's own end").check();
  await field(page, 'Tokens at most').fill('480');
  // Seconds of work.
  await openGroup(page, 'More of sampling');
  await field(page, 'Samples').fill('12');
  await box(page).fill('Once upon a time');
  await page.getByRole('button', { name: 'Run' }).click();
  await status(page).getByText('Answering…').waitFor({ timeout: 15_000 });
  await page.getByRole('button', { name: 'Stop' }).click();
  await status(page).getByText('Stopped', { exact: true }).waitFor({ timeout: 5_000 });
  const made = Number(/(\d+) made/.exec(await answer(page).innerText())?.[1]);
  expect(made).toBeGreaterThan(0);
  expect(made).toBeLessThan(12 * 480);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await expectAccessible(page, colorScheme);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    await page.screenshot({ path: join(pictures, `playground-360-${colorScheme}.png`), fullPage: true });
  }
  await page.context().close();
  expect(browser.errors.splice(0).filter((line) => !/40[13]/.test(line))).toEqual([]);
});
