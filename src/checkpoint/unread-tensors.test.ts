import { expect, test } from 'vitest';
import { textPartOf } from './text-part.ts';
import { staysUnread } from './unread-tensors.ts';

test('of a model that reads images only its text part is read, under either of its names', () => {
  const model = { task: 'generate', isEncoder: false, tiedHead: true } as const;
  const both = { ...model, textPart: textPartOf(['Gemma3ForConditionalGeneration']) };
  const unread = (name: string) => staysUnread(name, both);
  for (const other of [
    'vision_tower.vision_model.post_layernorm.weight',
    'multi_modal_projector.mm_soft_emb_norm.weight',
  ]) {
    expect([other, `model.${other}`].map(unread)).toEqual([true, true]);
    // A model of text has none of these, and says so when it is loaded.
    expect(staysUnread(other, model)).toBe(false);
  }
  expect(['language_model.model.norm.weight', 'model.language_model.norm.weight'].map(unread)).toEqual([false, false]);
  expect(['language_model.lm_head.weight', 'lm_head.weight'].map(unread)).toEqual([true, true]);
  expect(staysUnread('language_model.lm_head.weight', { ...both, tiedHead: false })).toBe(false);
});
