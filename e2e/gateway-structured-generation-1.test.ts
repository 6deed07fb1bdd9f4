// Structured output, tools, stops and logprobs through the first generation of the gateway.
import { describeStructured } from './harness/structured-tests.ts';

describeStructured(1);
