import { Template } from '@huggingface/jinja';
import { CheckpointError } from './checkpoint.ts';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** A model's chat template: Jinja, as Hugging Face's tokenizer_config.json and chat_template.jinja hold it. */
export interface ChatTemplate {
  /**
   * The prompt of a chat, up to where the assistant's next message begins; special tokens are in it as text, so it is
   * encoded bare. Throws CheckpointError with the template's own words where it refuses the messages.
   */
  render(messages: readonly ChatMessage[]): string;
}

interface TokenizerConfig {
  readonly chat_template?: unknown;
  readonly [key: string]: unknown;
}

/**
 * Reads the template of tokenizer_config.json, or `jinja`, the text of chat_template.jinja, which wins over it.
 * Undefined where the model has none. Throws CheckpointError naming `folder`.
 */
export function readChatTemplate(
  tokenizerConfigJson: string,
  jinja: string | undefined,
  folder: string,
): ChatTemplate | undefined {
  let config: TokenizerConfig;
  let template: Template;
  try {
    config = JSON.parse(tokenizerConfigJson) as TokenizerConfig;
    const source = jinja ?? defaultTemplate(config.chat_template);
    if (source === undefined) return undefined;
    template = new Template(source);
  } catch (error) {
    throw new CheckpointError(`${folder}: the chat template can't be read (${(error as Error).message})`);
  }
  const specials = Object.fromEntries(
    Object.entries(config).flatMap(([key, value]) => {
      const text = key.endsWith('_token') ? contentOf(value) : undefined;
      return text === undefined ? [] : [[key, text]];
    }),
  );
  return {
    render(messages) {
      try {
        return template.render({ ...specials, messages, add_generation_prompt: true });
      } catch (error) {
        throw new CheckpointError(`${folder}: the chat template refuses this: ${(error as Error).message}`);
      }
    },
  };
}

/** One text, or several by name, of which "default" is the one for chats. */
function defaultTemplate(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return undefined;
  const named = value as readonly { readonly name?: unknown; readonly template?: unknown }[];
  const template = named.find(({ name }) => name === 'default')?.template;
  return typeof template === 'string' ? template : undefined;
}

/** A special token's text: bare, or of an AddedToken. */
function contentOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const content = (value as { content?: unknown } | null)?.content;
  return typeof content === 'string' ? content : undefined;
}
