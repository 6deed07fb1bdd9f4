import { describe, expect, it } from 'vitest';
import golden from '../testing/golden/smollm2/chat.json' with { type: 'json' };
import gguf from '../testing/golden/smollm2-gguf.json' with { type: 'json' };
import { type ChatMessage, readChatTemplate } from './chat-template.ts';

const SMOLLM2 = JSON.stringify({
  chat_template: gguf.metadata['tokenizer.chat_template'],
  bos_token: '<|im_start|>',
  eos_token: { content: '<|im_end|>', special: true },
});
const user = (content: string): ChatMessage[] => [{ role: 'user', content }];

describe('readChatTemplate', () => {
  it('renders what the reference implementation renders', () => {
    const template = readChatTemplate(SMOLLM2, undefined, 'm')!;
    for (const { messages, text } of golden.cases) {
      expect(template.render(messages as ChatMessage[])).toBe(text);
    }
  });

  it('knows special tokens, plain and as objects', () => {
    const json = JSON.stringify({
      chat_template:
        '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{% if add_generation_prompt %}!{% endif %}',
      bos_token: '<s>',
      eos_token: { content: '</s>' },
      pad_token: null,
    });
    expect(readChatTemplate(json, undefined, 'm')!.render(user('hi'))).toBe('<s>hi</s>!');
  });

  it('takes the file before the config, and the default of several', () => {
    const several = JSON.stringify({
      chat_template: [
        { name: 'tool_use', template: 'tools' },
        { name: 'default', template: 'chat' },
      ],
    });
    expect(readChatTemplate(several, undefined, 'm')!.render(user(''))).toBe('chat');
    expect(readChatTemplate(several, 'file', 'm')!.render(user(''))).toBe('file');
  });

  it('says that there is none', () => {
    expect(readChatTemplate('{}', undefined, 'm')).toBeUndefined();
    expect(readChatTemplate('{"chat_template":[{"name":"tool_use","template":"x"}]}', undefined, 'm')).toBeUndefined();
  });

  it('tells why a template or a chat is refused', () => {
    expect(() => readChatTemplate('{"chat_template":"{% for %}"}', undefined, 'folder')).toThrow(
      /^folder: .*can't be read/,
    );
    expect(() => readChatTemplate('{', undefined, 'folder')).toThrow(/^folder: /);
    const json = JSON.stringify({ chat_template: "{{ raise_exception('roles must alternate') }}" });
    expect(() => readChatTemplate(json, undefined, 'm')!.render(user('x'))).toThrow(/roles must alternate/);
  });
});
