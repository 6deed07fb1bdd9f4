import type { JsonObject, JsonValue } from '@bufbuild/protobuf';
import type { Logger } from 'pino';
import { invalid, unserved } from '../../contract/contract-error.ts';
import { defaultOptions, type RelaySettings } from '../options.ts';

const MAX_INT32 = 2 ** 31 - 1;
/** Pino's, and nothing at all. */
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** Told as they are. */
const SETTINGS = ([...Object.keys(defaultOptions), 'ranks', 'schedulePolicy'] as (keyof RelaySettings)[]).filter(
  (name) => name !== 'maxQueued',
);

type Change = () => void;

/** The settings that a running relay can change, and all others by the same names, which it can't. Nobody else keeps a copy. */
export class RunningSettings {
  /** Requests that wait at the relay. */
  maxQueued: number;
  /** Part of the finished samples that is audited, in [0, 1]. */
  auditShare: number;
  private readonly settings: RelaySettings;
  private readonly log: Logger;

  constructor(settings: RelaySettings, log: Logger) {
    this.settings = settings;
    this.maxQueued = settings.maxQueued;
    this.auditShare = settings.auditShare;
    this.log = log;
  }

  /** By names as SGLang's server arguments have them: `max_queued_requests`, and our own options in snake_case. */
  get state(): JsonObject {
    const state: JsonObject = {};
    // What was given besides, such as tokens, is no setting of these.
    for (const name of SETTINGS) {
      const value = this.settings[name];
      if (value !== undefined) state[snake(name)] = value;
    }
    return {
      ...state,
      max_queued_requests: this.maxQueued,
      audit_share: this.auditShare,
      log_level: this.log.level,
    };
  }

  /** Throws ContractError naming what can't be; then nothing is changed. */
  change(wanted: JsonObject): void {
    const entries = Object.entries(wanted);
    if (entries.length === 0) throw invalid('state', 'must name a setting.');
    const changes = entries.map(([name, value]) => this.changeOf(name, value));
    for (const change of changes) change();
    this.log.info({ changed: Object.fromEntries(entries) }, 'settings changed');
  }

  private changeOf(name: string, value: JsonValue): Change {
    switch (name) {
      case 'max_queued_requests': {
        const most = numberIn(name, value, 0, MAX_INT32);
        if (!Number.isInteger(most)) throw invalid(field(name), 'must be an integer.');
        return () => {
          this.maxQueued = most;
        };
      }
      case 'audit_share': {
        const share = numberIn(name, value, 0, 1);
        return () => {
          this.auditShare = share;
        };
      }
      case 'log_level': {
        if (typeof value !== 'string' || !LOG_LEVELS.includes(value)) {
          throw invalid(field(name), `must be one of ${LOG_LEVELS.join(', ')}.`);
        }
        return () => {
          this.log.level = value;
        };
      }
      default:
        throw unserved(
          field(name),
          'is nothing that a running relay can change: max_queued_requests, audit_share and log_level are.',
        );
    }
  }
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function field(name: string): string {
  return `state.${name.slice(0, 100)}`;
}

function numberIn(name: string, value: JsonValue, least: number, most: number): number {
  if (typeof value === 'number' && value >= least && value <= most) return value;
  throw invalid(field(name), `must be a number in [${least}, ${most}].`);
}
